from __future__ import annotations

import pytest

from tritone.ports import PortError, check_ports, reachable


def test_two_options_with_one_port() -> None:
    with pytest.raises(PortError, match="--http-port and --metrics-port are both 8000"):
        check_ports({"--http-port": ("127.0.0.1", 8000), "--metrics-port": ("127.0.0.2", 8000)})


@pytest.mark.parametrize(
    ("host", "address"), [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("127.0.0.1", "127.0.0.1"), ("box", "box")]
)
def test_where_a_server_is_reached(host: str, address: str) -> None:
    assert reachable(host) == address
