from __future__ import annotations

import pytest

from tests.unit.tritone.gateway.asgi import call, echo, scope
from tritone.gateway.api_keys import ApiKeys
from tritone.gateway.auth import RequireApiKey
from tritone.gateway.metrics import GatewayMetrics

KEYS = ApiKeys(["sk-one", "sk-two"])


@pytest.fixture
def app() -> RequireApiKey:
    return RequireApiKey(echo, KEYS, GatewayMetrics())


@pytest.mark.parametrize("value", ["Bearer sk-one", "bearer sk-two", "BEARER  sk-one "])
def test_a_known_key_opens(app: RequireApiKey, value: str) -> None:
    assert call(app, scope(headers={"authorization": value})).status == 200


@pytest.mark.parametrize("value", [None, "", "Bearer", "Bearer ", "sk-one", "Basic sk-one", "Bearer sk-on", "Bearer é"])
def test_anything_else_is_401_in_openais_shape(app: RequireApiKey, value: str | None) -> None:
    answer = call(app, scope(headers={} if value is None else {"authorization": value}))
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="tritone"'
    assert (answer.error["type"], answer.error["code"]) == ("invalid_request_error", "invalid_api_key")
    assert b"sk-" not in answer.body


@pytest.mark.parametrize("path", ["/health", "/health/live", "/health/ready", "/version"])
def test_health_and_version_are_open(app: RequireApiKey, path: str) -> None:
    assert call(app, scope("GET", path)).status == 200


@pytest.mark.parametrize("path", ["/metrics", "/v1/models", "/health/", "/docs", "/nowhere"])
def test_nothing_else_is(app: RequireApiKey, path: str) -> None:
    assert call(app, scope("GET", path)).status == 401
