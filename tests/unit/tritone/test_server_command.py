from __future__ import annotations

from pathlib import Path

import pytest

from tritone.config import Config
from tritone.run_dir import RunDir
from tritone.server_command import server_command
from tritone.tritonserver import TritonInstall

INSTALL = TritonInstall(Path("/t/bin/tritonserver"), Path("/t/backends"), (), is_embedded=True, version="2.51.0")


def test_each_server_gets_an_ipv6_address_as_it_wants_it() -> None:
    command = server_command(INSTALL, RunDir(Path("/run/tritone/7-ab")), Config(host="::1"), is_gpu_host=False)
    assert command[3:6] == ["--http-address=ipv6:::1", "--grpc-address=[::1]", "--metrics-address=ipv6:::1"]


@pytest.mark.parametrize(("is_gpu_host", "gpu_metrics"), [(False, "false"), (True, "true")])
def test_the_whole_command(is_gpu_host: bool, gpu_metrics: str) -> None:
    config = Config(host="0.0.0.0", http_port=1, grpc_port=2, metrics_port=3, drain_timeout=2.5)
    assert server_command(INSTALL, RunDir(Path("/run/tritone/7-ab")), config, is_gpu_host) == [
        "/t/bin/tritonserver",
        "--model-repository=/run/tritone/7-ab/repository",
        "--backend-directory=/t/backends",
        "--http-address=0.0.0.0",
        "--grpc-address=0.0.0.0",
        "--metrics-address=0.0.0.0",
        "--http-port=1",
        "--grpc-port=2",
        "--metrics-port=3",
        f"--allow-gpu-metrics={gpu_metrics}",
        "--backend-config=python,shm-region-prefix-name=tritone-7-ab-",
        "--backend-config=python,shm-default-byte-size=4194304",
        "--backend-config=python,thread-pool-size=4",
        "--model-control-mode=none",
        "--disable-auto-complete-config",
        "--exit-on-error=false",
        "--exit-timeout-secs=3",
    ]
