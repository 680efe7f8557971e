"""Answers over ASGI: refused before the first byte, broken off after it, and ended when nobody is there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest
from starlette.types import Message

from tritone.gateway import sse
from tritone.gateway.answer_response import AnswerResponse
from tritone.gateway.choices import Choices
from tritone.gateway.ensemble_client import EnsembleError
from tritone.gateway.metrics import GatewayMetrics
from tritone.gateway.request_fields import BOTH, Route
from tritone.gateway.request_record import RequestRecord
from tritone.gateway.settings import GatewayConfig

from .asgi import DISCONNECT, Answer, scope
from .fake_ensemble import ENDLESS, FakeEnsemble, Step, record
from .sample_requests import event, parse

A, B = event("a", 1, sent=3), event("b", 2, "length", 3)
MODES = [False, True]
STAYS = ENDLESS


def answer(
    script: Sequence[Step],
    stream: bool,
    route: Route = "completions",
    leaves_after_s: float = STAYS,
    of: RequestRecord | None = None,
    n: int = 1,
    **settings: float,
) -> tuple[Answer, FakeEnsemble]:
    """What a client is sent that may leave after a while, and the ensemble that played the script for each choice."""
    ensemble, kept = FakeEnsemble(*[script] * n), of or record()
    request = parse(route, stream=stream, n=n)
    choices = Choices(ensemble, GatewayMetrics(), kept, "m", [{}] * n, n)  # type: ignore[arg-type]
    response = AnswerResponse(request, choices, kept, GatewayConfig.model_validate(settings))
    sent = Answer()

    async def receive() -> Message:
        await asyncio.sleep(leaves_after_s)
        return DISCONNECT

    async def send(message: Message) -> None:
        sent.messages.append(message)

    asyncio.run(asyncio.wait_for(response(scope(), receive, send), 5))
    assert ensemble.running == set()
    return sent, ensemble


def datas(sent: Answer) -> list[str]:
    return [block.removeprefix("data: ") for block in sent.body.decode().split("\n\n")[:-1]]


@pytest.mark.parametrize("route", BOTH)
def test_whole_answer(route: Route) -> None:
    sent, ensemble = answer([[A], [B]], stream=False, route=route)
    body = json.loads(sent.body)
    (choice,) = body["choices"]
    assert (choice["message"]["content"] if route == "chat" else choice["text"]) == "ab"
    assert body["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    assert body["id"].startswith("chatcmpl-" if route == "chat" else "cmpl-")
    assert sent.headers == {"content-type": "application/json", "content-length": str(len(sent.body))}
    assert ensemble.cancelled == []


@pytest.mark.parametrize("route", BOTH)
def test_stream(route: Route) -> None:
    sent, ensemble = answer([[A], [B]], stream=True, route=route)
    *chunks, done = datas(sent)
    assert (sent.status, sent.headers["content-type"], done) == (200, sse.CONTENT_TYPE, "[DONE]")
    assert sent.headers["cache-control"] == "no-cache"
    assert sum(json.loads(chunk)["choices"][0]["finish_reason"] == "length" for chunk in chunks) == 1
    assert sent.messages[-1].get("more_body", False) is False
    assert ensemble.cancelled == []


def test_events_that_arrive_together_are_sent_together() -> None:
    sent, _ = answer([[A, event("x", 2), event("y", 3)], [event("z", 4), event("", 5, "stop", 3)]], stream=True)
    assert [message["body"].count(b"data: ") for message in sent.messages[1:]] == [1, 1, 1, 0]
    assert b'"text":"axy"' in sent.messages[1]["body"]


@pytest.mark.parametrize(
    ("error", "status", "headers"),
    [
        (EnsembleError(400, "text_input: the prompt has no tokens"), 400, {}),
        (EnsembleError(404, "no such model"), 404, {}),
        (EnsembleError(429, "the queue is full"), 429, {"retry-after": "1"}),
        (EnsembleError(503, "the model server cannot be reached"), 503, {"retry-after": "1"}),
        (EnsembleError(500, "secret"), 500, {}),
        (ValueError("secret"), 500, {}),
    ],
)
@pytest.mark.parametrize("n", [1, 2])
def test_b42_refusal_is_the_same_with_and_without_stream(
    error: Exception, status: int, headers: dict[str, str], n: int
) -> None:
    whole, stream = (answer([error], stream=is_stream, n=n)[0] for is_stream in MODES)
    assert whole.messages == stream.messages
    assert whole.status == status
    assert {**whole.headers, "content-length": ""} == {
        "content-type": "application/json",
        "content-length": "",
        **headers,
    }
    assert "secret" not in whole.body.decode()


def test_unexpected_errors_have_a_fixed_text_and_the_id_and_no_text_of_theirs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sent, _ = answer([ValueError("secret")], stream=True)
    assert sent.error == {
        "message": "The server had an error while processing your request. Request id: req-1",
        "type": "server_error",
        "param": None,
        "code": "internal_error",
    }
    assert "secret" not in caplog.text
    assert "request req-1 failed: ValueError at fake_ensemble.py" in caplog.text


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (EnsembleError(500, "secret"), "internal_error"),
        (EnsembleError(503, "the model server cannot be reached"), "service_unavailable"),
        (ValueError("secret"), "internal_error"),
    ],
)
def test_error_after_the_first_byte_is_the_last_event(error: Exception, code: str) -> None:
    kept = record()
    sent, _ = answer([[A], error], stream=True, of=kept)
    *chunks, last = datas(sent)
    assert (sent.status, json.loads(last)["error"]["code"], kept.error) == (200, code, code)
    assert "[DONE]" not in chunks
    assert sent.messages[-1]["more_body"] is False
    assert "secret" not in sent.body.decode()


@pytest.mark.parametrize("ending", [[event("", 2, "abort")], [event("", 2, "error")], []])
@pytest.mark.parametrize("stream", MODES)
def test_answer_that_was_broken_off_is_an_error(ending: list[object], stream: bool) -> None:
    sent, _ = answer([[A], *([ending] if ending else [])], stream=stream)  # type: ignore[list-item]
    last = json.loads(datas(sent)[-1] if stream else sent.body)
    assert (sent.status, last["error"]["type"]) == (200 if stream else 500, "server_error")
    assert b"[DONE]" not in sent.body


@pytest.mark.parametrize("stream", MODES)
def test_one_choice_that_fails_fails_the_request(stream: bool) -> None:
    sent, _ = answer([[A], 0.01, EnsembleError(500, "secret")], stream=stream, n=3)
    assert sent.body.count(b'"error"') == 1
    assert b"[DONE]" not in sent.body


def test_keep_alive_fills_a_pause_and_only_that() -> None:
    sent, _ = answer([[A], 0.3, [B]], stream=True, keep_alive_s=0.05)
    bodies = [message["body"] for message in sent.messages[1:]]
    assert 2 <= bodies.count(sse.KEEP_ALIVE) <= 6
    assert (bodies[0][:6], bodies[-2]) == (b"data: ", sse.DONE)
    sent, _ = answer([[A], *[[event("x", number)] for number in range(2, 20)], [B]], stream=True, keep_alive_s=0.05)
    assert sse.KEEP_ALIVE not in sent.body


@pytest.mark.parametrize("stream", MODES)
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("script", [[[A], ENDLESS], [ENDLESS]], ids=["mid-answer", "queued"])
def test_client_that_leaves_ends_every_choice(script: list[Step], n: int, stream: bool) -> None:
    kept = record()
    sent, ensemble = answer(script, stream, leaves_after_s=0.05, of=kept, n=n)
    assert (len(ensemble.cancelled), kept.is_disconnected) == (n, True)
    assert b"error" not in sent.body


@pytest.mark.parametrize("stream", MODES)
@pytest.mark.parametrize("script", [[[A], ENDLESS], [ENDLESS]], ids=["mid-answer", "queued"])
def test_answer_that_takes_too_long_ends_with_a_504(script: list[Step], stream: bool) -> None:
    sent, ensemble = answer(script, stream, request_timeout_s=0.05)
    has_begun = stream and len(script) == 2
    last = json.loads(datas(sent)[-1] if has_begun else sent.body)
    assert (sent.status, last["error"]["code"]) == (200 if has_begun else 504, "timeout")
    assert last["error"]["message"] == "The answer took longer than 0.05 s."
    assert ensemble.cancelled == ["unique"]


@pytest.mark.parametrize("stream", MODES)
def test_answer_that_is_cut_off_frees_the_engine(stream: bool) -> None:
    sent = cut_off(FakeEnsemble([[A], ENDLESS]), stream)
    error = json.loads(datas(sent)[-1] if stream else sent.body)["error"]
    assert (sent.status, error["code"]) == (200 if stream else 503, "service_unavailable")
    assert stream or sent.headers["retry-after"] == "1"
    assert "[DONE]" not in sent.body.decode()


def cut_off(ensemble: FakeEnsemble, stream: bool) -> Answer:
    """What is sent when the server cancels the tasks that are left at the end of its time."""
    sent = Answer()
    choices = Choices(ensemble, GatewayMetrics(), record(), "m", [{}], 1)  # type: ignore[arg-type]
    response = AnswerResponse(parse("chat", stream=stream), choices, record(), GatewayConfig())

    async def never() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        sent.messages.append(message)

    async def cut() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(response(scope(), never, send), 0.05)
        assert ensemble.cancelled == ["unique"]

    asyncio.run(cut())
    return sent
