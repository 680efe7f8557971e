from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.tritone.gateway.asgi import call, echo, scope
from tritone.gateway.auth import ApiKeyError, ApiKeys, RequireApiKey, load_keys
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


def test_keys_come_from_file_and_environment(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("# ours\n a \n\nb\n")
    keys = load_keys(str(path), {"TRITONE_API_KEYS": "c, d,"})
    assert [key for key in "abcde# " if keys.has(key)] == ["a", "b", "c", "d"]
    assert not load_keys(None, {})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        (b"# none\n", "has no key"),
        (b"\xff\n", "is not UTF-8"),
        (b"two words\n", "has a blank"),
    ],
)
def test_a_file_without_usable_keys_is_an_error(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "keys"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ApiKeyError, match=message) as caught:
        load_keys(str(path), {})
    assert "words" not in str(caught.value)
