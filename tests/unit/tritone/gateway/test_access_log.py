from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.unit.tritone.gateway.asgi import DISCONNECT, Answer, body, call, echo, scope
from tritone.gateway.access_log import AccessLog
from tritone.gateway.metrics import GatewayMetrics
from tritone.gateway.request_record import record_of


def logged(app: ASGIApp, request: Scope, messages: Any = ()) -> tuple[Answer, dict[str, Any]]:
    lines: list[bytes] = []
    answer = call(AccessLog(app, lines.append, GatewayMetrics()), request, messages)
    (line,) = lines
    assert line.isascii()
    assert line.count(b"\n") == 1
    return answer, json.loads(line)


async def start(send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"one", "more_body": True})


def test_a_line_says_what_is_known() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        record = record_of(scope)
        record.model, record.is_stream, record.num_prompt_tokens, record.num_generation_tokens = "toy", True, 3, 4
        record.first_token_s = record.started_s + 0.25
        record.finish_reasons.append("stop")
        await echo(scope, receive, send)

    answer, line = logged(app, scope(), body(b"secret"))
    assert answer.headers["x-request-id"] == line["request_id"]
    assert line.pop("duration_ms") >= 0
    assert {key: line[key] for key in list(line)[3:]} == {
        "client": "192.0.2.1",
        "method": "POST",
        "path": "/v1/completions",
        "status": 200,
        "outcome": "ok",
        "model": "toy",
        "stream": True,
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "finish_reasons": ["stop"],
        "ttft_ms": 250.0,
    }


def test_a_path_cannot_forge_a_line() -> None:
    _, line = logged(echo, scope(path='/\n{"status": 200}\x1b[31m\u2028' + "x" * 999))
    assert line["path"].startswith('/\n{"status": 200}\x1b[31m\u2028')
    assert len(line["path"]) == 256


def test_what_nobody_caught_is_a_fixed_text_and_one_line_without_the_errors_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("the prompt")

    answer, line = logged(fail, scope())
    assert (answer.status, answer.error["type"], line["outcome"]) == (500, "server_error", "error")
    assert line["request_id"] in answer.error["message"]
    assert line["error"].startswith("ValueError at test_access_log.py:")
    assert caplog.record_tuples == [
        ("tritone.gateway.access_log", logging.ERROR, f"request {line['request_id']} failed: {line['error']}")
    ]
    assert "the prompt" not in f"{answer.body!r}{line}{caplog.text}"


def test_an_answer_that_fails_after_its_first_byte_is_not_completed() -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)
        raise ValueError

    answer, line = logged(fail, scope())
    assert (answer.body, len(answer.messages)) == (b"one", 2)
    assert (line["status"], line["outcome"]) == (200, "error")


def test_an_answer_that_just_ends_is_an_error() -> None:
    async def stop(scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)

    assert logged(stop, scope())[1]["error"] == "the answer was broken off"


def test_a_client_that_left_is_no_error_of_ours() -> None:
    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)
        while (await receive())["type"] != "http.disconnect":
            pass

    line = logged(stream, scope(), [*body(b""), DISCONNECT])[1]
    assert (line["outcome"], "error" in line) == ("disconnected", False)


def test_a_connection_that_ends_after_the_answer_did_is_no_disconnect() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await echo(scope, receive, send)
        await receive()

    assert logged(app, scope(), [*body(b""), DISCONNECT])[1]["outcome"] == "ok"


def test_probes_are_not_logged() -> None:
    lines: list[bytes] = []
    for path in ("/health", "/health/live", "/health/ready", "/version", "/metrics"):
        call(AccessLog(echo, lines.append, GatewayMetrics()), scope("GET", path))
    assert lines == []


def test_the_route_and_not_the_path_is_the_label() -> None:
    app = FastAPI()
    app.add_api_route("/v1/models/{name:path}", lambda name: {"id": name})
    metrics = GatewayMetrics()
    for path in ("/v1/models/a", "/v1/models/b/c", "/no/such"):
        call(AccessLog(app, lambda line: None, metrics), scope("GET", path))
    text = metrics.text()
    assert 'outcome="ok",route="/v1/models/{name:path}"} 2.0' in text
    assert 'outcome="refused",route="other"} 1.0' in text


def test_a_full_disk_does_not_take_the_answer_away(caplog: pytest.LogCaptureFixture) -> None:
    def fail(line: bytes) -> None:
        raise OSError(28, "No space left on device")

    assert call(AccessLog(echo, fail, GatewayMetrics()), scope()).status == 200
    assert caplog.messages == ["the log of requests cannot be written: No space left on device"]
