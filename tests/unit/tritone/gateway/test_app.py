"""The whole application: what nobody expected, what is not there, and that its layers are in their places."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.types import ASGIApp, Message

from ensemble_repo.contract import TOO_MANY_REQUESTS
from tritone.gateway import app as app_module
from tritone.gateway.auth import ApiKeys
from tritone.gateway.ensemble_client import EnsembleError, ModelInfo
from tritone.gateway.health import GatewayState
from tritone.gateway.metrics import GatewayMetrics
from tritone.gateway.settings import GatewayConfig

from .asgi import Answer, body, call, scope
from .fake_ensemble import FakeEnsemble, Step
from .sample_requests import body as request_body
from .sample_requests import event

HELLO: list[Step] = [[event("hello", 1, "stop", 2)]]


class Served:
    """An application in front of a fake ensemble, and the lines of its access log."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        ensemble: FakeEnsemble,
        *keys: str,
        is_started: bool = True,
        **settings: Any,
    ) -> None:
        monkeypatch.setattr(app_module, "EnsembleClient", lambda url: ensemble)
        self.state = GatewayState()
        self.lines: list[dict[str, Any]] = []
        config = GatewayConfig.model_validate(settings)

        def write(line: bytes) -> None:
            self.lines.append(json.loads(line))

        self.app: ASGIApp = app_module.make_app(config, ApiKeys(keys), write, self.state, GatewayMetrics())
        if is_started:
            self.state.start()

    def get(self, path: str, **headers: str) -> Answer:
        return call(self.app, scope("GET", path, headers))

    def post(self, path: str, content: bytes, **headers: str) -> Answer:
        return call(self.app, scope("POST", path, headers), body(content))


def test_answer_and_its_line_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(monkeypatch, FakeEnsemble(HELLO))
    reply = served.post("/v1/chat/completions", request_body("chat"), **{"x-request-id": "mine"})
    assert (reply.status, reply.headers["x-request-id"]) == (200, "mine")
    assert json.loads(reply.body)["choices"][0]["message"]["content"] == "hello"
    (line,) = served.lines
    assert (line["request_id"], line["outcome"], line["prompt_tokens"], line["finish_reasons"]) == (
        "mine",
        "ok",
        2,
        ["stop"],
    )
    assert "hello" not in json.dumps(line)


@pytest.mark.parametrize("stream", [False, True])
def test_content_is_logged_only_if_that_is_switched_on(monkeypatch: pytest.MonkeyPatch, stream: bool) -> None:
    script: list[Step] = [[event("se", 1, sent=2)], [event("cret", 2, "stop", 2)]]
    messages = [{"role": "user", "content": "whisper"}]
    asked = request_body("chat", messages=messages, n=2, stream=stream)
    silent, open_ = (Served(monkeypatch, FakeEnsemble(script, script), log_content=is_on) for is_on in (False, True))
    for served in (silent, open_):
        assert served.post("/v1/chat/completions", asked).status == 200
    assert "content" not in silent.lines[0]
    assert not any(word in json.dumps(silent.lines) for word in ("whisper", "cret"))
    assert open_.lines[0]["content"] == {"prompt": messages, "answers": ["secret", "secret"]}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [429, 503])
def test_a_full_engine_is_overload(monkeypatch: pytest.MonkeyPatch, status: int, stream: bool) -> None:
    full = EnsembleError(503, f"{TOO_MANY_REQUESTS}: all 8 rows of the stream table are in use")
    served = Served(monkeypatch, FakeEnsemble([full]), overload_status=status)
    reply = served.post("/v1/chat/completions", request_body("chat", stream=stream))
    assert (reply.status, reply.headers["retry-after"], served.lines[0]["outcome"]) == (status, "1", "overloaded")
    assert reply.error["message"] == "The server has too many requests; try again."
    assert 'tritone:rejections_total{reason="engine_full"} 1.0' in served.get("/metrics").body.decode()


def test_the_trace_context_and_a_unique_id_go_to_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = FakeEnsemble(HELLO, HELLO)
    served = Served(monkeypatch, ensemble)
    trace = f"00-{'1' * 32}-{'2' * 16}-01"
    for _ in range(2):
        served.post("/v1/completions", request_body("completions"), **{"x-request-id": "mine", "traceparent": trace})
    assert [asked[3] for asked in ensemble.asked] == [{"traceparent": trace}] * 2
    ids = [asked[2] for asked in ensemble.asked]
    assert (ids[0] != ids[1], all(one.startswith("mine-") for one in ids)) == (True, True)


def test_what_nobody_expected_is_a_500_with_a_fixed_text(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(FakeEnsemble):
        async def models(self) -> list[ModelInfo]:
            raise RuntimeError("secret")

    served = Served(monkeypatch, Broken())
    reply = served.post("/v1/chat/completions", request_body("chat"), **{"x-request-id": "mine"})
    message = "The server had an error while processing your request. Request id: mine"
    assert (reply.status, reply.error["message"]) == (500, message)
    assert (served.lines[0]["outcome"], served.lines[0]["error"][:12]) == ("error", "RuntimeError")
    assert "secret" not in caplog.text + json.dumps(served.lines)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/docs", 404, "not_found"),
        ("GET", "/v1/completions", 405, "method_not_allowed"),
        ("DELETE", "/v1/models", 405, "method_not_allowed"),
    ],
)
def test_paths_and_methods_that_are_not_there(
    monkeypatch: pytest.MonkeyPatch, method: str, path: str, status: int, code: str
) -> None:
    reply = call(Served(monkeypatch, FakeEnsemble()).app, scope(method, path))
    assert (reply.status, reply.error["code"], reply.error["type"]) == (status, code, "invalid_request_error")


def test_triton_that_is_away_is_a_503(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    ensemble = FakeEnsemble()
    ensemble.is_up = False
    served = Served(monkeypatch, ensemble)
    for reply in (served.get("/v1/models"), served.post("/v1/chat/completions", request_body("chat"))):
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        assert reply.error["message"] == "The model server is not available; try again."
        assert f"request {reply.headers['x-request-id']}: the model server cannot be reached" in caplog.text
    assert served.get("/health/ready").status == 503
    assert served.get("/health/live").status == 200


def test_a_key_is_asked_for_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = FakeEnsemble(HELLO)
    served = Served(monkeypatch, ensemble, "key")
    assert served.post("/v1/chat/completions", b"{").status == 401
    assert served.get("/v1/models").error["code"] == "invalid_api_key"
    assert served.get("/v1/models", authorization="Bearer key").status == 200
    assert served.get("/health/live").status == 200


def test_nothing_new_while_draining(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(monkeypatch, FakeEnsemble())
    served.state.drain()
    reply = served.post("/v1/chat/completions", request_body("chat"))
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    assert json.loads(served.get("/health/ready").body) == {"status": "draining"}


def test_metrics_can_be_kept_private(monkeypatch: pytest.MonkeyPatch) -> None:
    reply = Served(monkeypatch, FakeEnsemble()).get("/metrics")
    assert "# from http://127.0.0.1:8002/metrics" in reply.body.decode()
    assert Served(monkeypatch, FakeEnsemble(), metrics=False).get("/metrics").status == 404


def test_lifespan_begins_and_ends_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    class Telling(FakeEnsemble):
        def open(self) -> None:
            told.append("opened")

        async def close(self) -> None:
            told.append("closed")

    served = Served(monkeypatch, Telling(), is_started=False)
    messages = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> Message:
        return {"type": next(messages)}

    async def send(message: Message) -> None:
        told.append(message["type"])

    asyncio.run(served.app({"type": "lifespan", "state": {}}, receive, send))  # type: ignore[arg-type]
    assert told == ["opened", "lifespan.startup.complete", "closed", "lifespan.shutdown.complete"]
    assert str(served.state) == "ready"
