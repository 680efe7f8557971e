from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tritone.gateway.settings import GatewayConfig


def test_text_and_values_give_the_same() -> None:
    text = {"overload_status": "503", "cors_origins": "https://a.org, http://b.org:8080", "metrics": "false"}
    values = {"overload_status": 503, "cors_origins": ["https://a.org", "http://b.org:8080"], "metrics": False}
    assert GatewayConfig.model_validate_strings(text) == GatewayConfig.model_validate(values)


def test_survives_a_way_through_json() -> None:
    config = GatewayConfig(cors_origins=("*",), overload_status=503, tls_cert="a", tls_key="b")
    assert GatewayConfig.model_validate_json(config.model_dump_json()) == config


def test_tritons_metrics_are_where_triton_is_unless_said_otherwise() -> None:
    assert GatewayConfig(triton="[::1]:80").triton_metrics_url == "http://[::1]:8002/metrics"
    assert GatewayConfig(triton_metrics="m:1").triton_metrics_url == "http://m:1/metrics"
    assert GatewayConfig(triton="host:8000").triton_url == "http://host:8000"


@pytest.mark.parametrize(("workers", "share"), [(1, 10), (3, 4), (10, 1), (16, 1)])
def test_workers_share_the_limit_of_requests(workers: int, share: int) -> None:
    assert GatewayConfig(max_concurrent_requests=10, workers=workers).concurrency_per_worker == share


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("triton", "host", "must be HOST:PORT"),
        ("triton", "http://host:8000", "must be HOST:PORT"),
        ("triton", "host:0", "must be HOST:PORT"),
        ("triton", "host:65536", "must be HOST:PORT"),
        ("triton_metrics", ":8002", "must be HOST:PORT"),
        ("cors_origins", ("example.org",), r"must be \* or origins"),
        ("overload_status", 500, "429 or 503"),
        ("workers", 0, "greater than or equal to 1"),
        ("max_body_bytes", 0, "greater than or equal to 1"),
        ("request_timeout_s", float("inf"), "finite"),
        ("api_key", "secret", "Extra inputs are not permitted"),
    ],
)
def test_refuses_what_is_not_allowed(field: str, value: Any, rule: str) -> None:
    with pytest.raises(ValidationError, match=rule):
        GatewayConfig(**{field: value})
