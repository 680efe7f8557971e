"""The way to the ensemble, against a Triton of a few lines that has only what is used of an aiohttp session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from tritone.gateway import ensemble_client
from tritone.gateway.ensemble_client import EnsembleClient, EnsembleError, Event, ModelInfo

T = TypeVar("T")

URL = "http://triton:8000"
UNREACHABLE = aiohttp.ClientConnectorError(ConnectionKey("triton", 8000, False, True, None, None, None), OSError("no"))
STOPPED = [("toy_engine/generate_stream", {"id": "r", "stop": True})]


class FakeContent:
    """A body that comes in blocks, or breaks off."""

    def __init__(self, blocks: Sequence[bytes | Exception]) -> None:
        self._blocks = list(blocks)

    async def readany(self) -> bytes:
        await asyncio.sleep(0)
        block = self._blocks.pop(0) if self._blocks else b""
        if isinstance(block, Exception):
            raise block
        if block == b"...":  # nothing more, for now
            await asyncio.sleep(3600)
        return block


class FakeResponse:
    """A reply of Triton."""

    def __init__(self, status: int, *blocks: bytes | Exception) -> None:
        self.status = status
        self.content = FakeContent(blocks)
        self._body = b"".join(block for block in blocks if isinstance(block, bytes))

    async def text(self) -> str:
        return self._body.decode()

    async def json(self) -> Any:
        return json.loads(self._body)


class FakeSession:
    """Answers by the path behind /v2/models/; what is not listed gets an empty 200. `asked` are path and body."""

    def __init__(self, replies: Mapping[str, FakeResponse | Exception]) -> None:
        self._replies = replies
        self.asked: list[tuple[str, Any]] = []
        self.headers: Mapping[str, str] | None = None
        self.num_open = 0

    def post(self, url: str, *, json: Any, headers: Mapping[str, str] | None = None) -> Any:
        self.headers = headers
        return self._reply(url, json)

    def get(self, url: str, *, timeout: aiohttp.ClientTimeout | None = None) -> Any:
        return self._reply(url, None)

    async def close(self) -> None:
        assert self.num_open == 0

    @asynccontextmanager
    async def _reply(self, url: str, body: Any) -> AsyncIterator[FakeResponse]:
        path = url.removeprefix(URL).removeprefix("/v2/models/")
        self.asked.append((path, body))
        reply = self._replies.get(path, FakeResponse(200))
        if isinstance(reply, Exception):
            raise reply
        self.num_open += 1
        try:
            yield reply
        finally:
            self.num_open -= 1


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 5))


def client(session: FakeSession) -> EnsembleClient:
    made = EnsembleClient(URL)
    made._session = session  # type: ignore[assignment]
    return made


def data(text: str, made: int, reason: str | None = None, sent: int | None = None) -> bytes:
    reply: dict[str, Any] = {"model_name": "toy", "text_output": text, "num_output_tokens": made}
    extra = {"finish_reason": reason, "num_input_tokens": sent}
    reply |= {name: value for name, value in extra.items() if value is not None}
    return b"data: " + json.dumps(reply, ensure_ascii=False).encode() + b"\n\n"


FIRST, LAST = data("é", 1, sent=3), data("", 2, "stop", 3)


def answer(*blocks: bytes | Exception, status: int = 200) -> FakeSession:
    return FakeSession({"toy/generate_stream": FakeResponse(status, *blocks)})


async def lists_of(session: FakeSession, most: int | None = None, **inputs: Any) -> list[list[Event]]:
    """The lists of an answer, `most` of them if it is left then; the client is closed."""
    made = client(session)
    lists: list[list[Event]] = []
    try:
        async with aclosing(made.generate("toy", inputs, "r", {"traceparent": "t"})) as events:
            async for arrived in events:
                lists.append(arrived)
                if len(lists) == most:
                    break
    finally:
        await made.close()
    return lists


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensemble_client, "STOP_PAUSES_S", (0.0, 0.001, 0.002))


def test_an_answer_is_one_stream_that_always_streams() -> None:
    session = answer(FIRST, LAST)
    assert run(lists_of(session, text_input="a")) == [[Event("é", 1, None, 3)], [Event("", 2, "stop", 3)]]
    assert session.asked == [("toy/generate_stream", {"id": "r", "stream": True, "text_input": "a"})]
    assert session.headers == {"traceparent": "t"}


def test_log_probabilities_come_as_they_are() -> None:
    reply = json.loads(LAST[6:]) | {"logprobs": '[{"token":"a"}]'}
    session = answer(FIRST, b"data: " + json.dumps(reply).encode() + b"\n\n")
    ((first,), (last,)) = run(lists_of(session))
    assert (first.logprobs, last.logprobs) == (None, '[{"token":"a"}]')


def test_what_is_read_together_is_told_together() -> None:
    assert [len(events) for events in run(lists_of(answer(FIRST + FIRST + LAST)))] == [3]


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_events_cut_anywhere_are_whole_again(size: int) -> None:
    whole = FIRST + data("\u2028😀", 2) + LAST
    blocks = [whole[start : start + size] for start in range(0, len(whole), size)]
    events = [event for arrived in run(lists_of(answer(*blocks))) for event in arrived]
    assert [event.text for event in events] == ["é", "\u2028😀", ""]


@pytest.mark.parametrize(
    ("status", "message", "told", "field"),
    [
        (400, "in ensemble 'toy', max_tokens: got 0", "max_tokens: got 0", "max_tokens"),
        (400, "[request id: r] in ensemble 'toy', stop_words: got 1", "stop_words: got 1", "stop_words"),
        (400, "messages[1].content[0]: is odd", "messages[1].content[0]: is odd", "messages"),
        (400, "[request id: ] unexpected: thing", "unexpected: thing", None),
        (404, "Request for unknown model", "Request for unknown model", None),
        (429, "the queue is full", "the queue is full", None),
        (503, "busy", "busy", None),
        (504, "late", "late", None),
        (500, "broken", "broken", None),
        (502, "broken", "broken", None),
    ],
)
def test_refusal_has_a_status_a_message_and_a_field(status: int, message: str, told: str, field: str | None) -> None:
    session = answer(json.dumps({"error": message}).encode(), status=status)
    with pytest.raises(EnsembleError) as caught:
        run(lists_of(session))
    known = status if status != 502 else 500
    assert (caught.value.status, caught.value.message, caught.value.field) == (known, told, field)
    assert len(session.asked) == 1  # the engine has nothing to free


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"detail": 1}'])
def test_refusal_without_a_reason(body: bytes) -> None:
    with pytest.raises(EnsembleError, match="the model server gave no reason"):
        run(lists_of(answer(body, status=500)))


def test_error_in_the_stream_comes_after_what_came_with_it() -> None:
    session = answer(FIRST + b'data: {"error": "in ensemble \'toy\', broken"}\n\n')
    told: list[Any] = []

    async def read() -> None:
        async for events in client(session).generate("toy", {}, "r"):
            told.append(events)

    with pytest.raises(EnsembleError, match=r"^broken$") as caught:
        run(read())
    assert (caught.value.status, len(told), len(session.asked)) == (500, 1, 1)


def test_answer_that_just_ends_is_an_error() -> None:
    with pytest.raises(EnsembleError, match="without saying why"):
        run(lists_of(answer(FIRST)))


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UNREACHABLE, 503),
        (aiohttp.ConnectionTimeoutError("late"), 503),
        (aiohttp.ServerDisconnectedError(), 500),
        (asyncio.TimeoutError(), 500),
    ],
)
def test_no_reply_at_all(error: Exception, status: int) -> None:
    session = FakeSession({"toy/generate_stream": error})
    with pytest.raises(EnsembleError, match="the model server") as caught:
        run(lists_of(session))
    assert caught.value.status == status


def test_connection_that_breaks_within_an_answer() -> None:
    with pytest.raises(EnsembleError, match="broke the connection off"):
        run(lists_of(answer(FIRST, aiohttp.ClientPayloadError())))


def test_left_early_it_tells_the_engine_until_that_must_have_heard() -> None:
    session = answer(FIRST, FIRST, LAST)
    assert len(run(lists_of(session, most=1))) == 1
    assert session.asked[1:] == STOPPED * 3
    assert session.num_open == 0


def test_cancelled_while_it_waits_it_tells_the_engine() -> None:
    session = answer(b"...")

    async def leave() -> None:
        made = client(session)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(made.generate("toy", {}, "r")), 0.02)
        await made.close()

    run(leave())
    assert session.asked[1:] == STOPPED * 3


def test_read_to_its_end_it_says_nothing_more() -> None:
    session = answer(FIRST, LAST)
    run(lists_of(session))
    assert len(session.asked) == 1


def test_engine_that_does_not_hear_is_no_error() -> None:
    session = FakeSession(
        {"toy/generate_stream": FakeResponse(200, FIRST, b"..."), "toy_engine/generate_stream": UNREACHABLE}
    )
    assert len(run(lists_of(session, most=1))) == 1
    assert len(session.asked) == 4


@pytest.mark.parametrize(
    ("message", "status", "is_overload"),
    [
        ("too many requests: all 8 rows of the stream table are in use", 503, True),
        ("the server is shutting down", 503, False),
        ("the engine stage has ended: CUDA error", 503, False),
        ("Stub process 'm_engine_0_0' is not healthy.", 503, False),
        ("internal error in the postprocess stage", 500, False),
        ("the engine failed: CUDA error", 500, False),
        ("max_tokens: got -4, must be at least 1", 400, False),
        ("the engine refused the request's parameters", 400, False),
    ],
)
def test_triton_says_400_and_the_message_what_it_is(message: str, status: int, is_overload: bool) -> None:
    reply = f"""data: {json.dumps({"error": f"in ensemble 'toy', {message}"})}\n\n""".encode()
    with pytest.raises(EnsembleError) as caught:
        run(lists_of(answer(reply, status=400)))
    assert (caught.value.status, caught.value.message, caught.value.is_overload) == (status, message, is_overload)
    with pytest.raises(EnsembleError) as caught:
        run(lists_of(answer(FIRST + reply)))
    assert caught.value.status == (status if status != 400 or caught.value.field else 500)


def test_models_are_the_ensembles_that_are_ready() -> None:
    ready = [{"name": f"{name}{stage}", "state": "READY"} for name in "ba" for stage in ("", "_preprocess", "_engine")]
    index = [*ready, {"name": "c"}, {"name": "c_preprocess"}, {"name": "other", "state": "READY"}]
    config = {"parameters": {"max_model_len": {"string_value": "64"}}}
    served = {"parameters": {"served_name": {"string_value": "org/модель"}}}
    session = FakeSession(
        {
            "../repository/index": FakeResponse(200, json.dumps(index).encode()),
            "a/config": FakeResponse(200, b"{}"),
            "b/config": FakeResponse(200, json.dumps(served).encode()),
            "a_preprocess/config": FakeResponse(200, json.dumps(config).encode()),
            "b_preprocess/config": FakeResponse(200, json.dumps(config).encode()),
        }
    )
    assert run(client(session).models()) == [ModelInfo("a", 64, "a"), ModelInfo("org/модель", 64, "b")]


def test_lora_adapters_are_models_behind_the_ensembles() -> None:
    index = [{"name": f"{name}{stage}", "state": "READY"} for name in "ab" for stage in ("", "_preprocess")]
    lora = {"served_name": {"string_value": "org/a"}, "lora_names": {"string_value": '["é", "tuned"]'}}
    context = json.dumps({"parameters": {"max_model_len": {"string_value": "64"}}}).encode()
    session = FakeSession(
        {
            "../repository/index": FakeResponse(200, json.dumps(index).encode()),
            "a/config": FakeResponse(200, json.dumps({"parameters": lora}).encode()),
            "b/config": FakeResponse(200, b"{}"),
            "a_preprocess/config": FakeResponse(200, context),
            "b_preprocess/config": FakeResponse(200, context),
        }
    )
    assert run(client(session).models()) == [
        ModelInfo("org/a", 64, "a"),
        ModelInfo("b", 64, "b"),
        ModelInfo("é", 64, "a", parent="org/a"),
        ModelInfo("tuned", 64, "a", parent="org/a"),
    ]


def test_models_of_a_triton_that_goes_away() -> None:
    index = [{"name": name, "state": "READY"} for name in ("a", "a_preprocess")]
    replies = {
        "../repository/index": FakeResponse(200, json.dumps(index).encode()),
        "a/config": FakeResponse(200, b"{}"),
    }
    for gone, status in ((UNREACHABLE, 503), (FakeResponse(400, b'{"error": "unloaded"}'), 400)):
        with pytest.raises(EnsembleError) as caught:
            run(client(FakeSession({**replies, "a_preprocess/config": gone})).models())
        assert caught.value.status == status


@pytest.mark.parametrize("reply", [UNREACHABLE, asyncio.TimeoutError(), FakeResponse(503)])
def test_not_ready(reply: FakeResponse | Exception) -> None:
    assert run(client(FakeSession({"/v2/health/ready": reply})).is_ready()) is False


def test_ready_and_metrics() -> None:
    session = FakeSession({"/metrics": FakeResponse(200, b"nv_x 1\n"), "http://away/metrics": UNREACHABLE})
    assert run(client(session).is_ready()) is True
    assert run(client(session).metrics(f"{URL}/metrics")) == "nv_x 1\n"
    assert run(client(session).metrics("http://away/metrics")) == ""


PREPARED = {
    "outputs": [
        {"name": "input_ids", "data": [104, 105]},
        {"name": "stream_context", "data": ['{"stop": []}']},
    ]
}


def test_tokenize_asks_preprocess_by_the_contracts_types() -> None:
    session = FakeSession({"toy_preprocess/infer": FakeResponse(200, json.dumps(PREPARED).encode())})
    assert run(client(session).tokenize("toy", {"text_input": "hi", "add_generation_prompt": False})) == [104, 105]
    ((_, body),) = session.asked
    assert body["inputs"] == [
        {"name": "text_input", "datatype": "BYTES", "shape": [1, 1], "data": ["hi"]},
        {"name": "add_generation_prompt", "datatype": "BOOL", "shape": [1, 1], "data": [False]},
    ]


def test_detokenize_asks_postprocess_as_the_engine_does() -> None:
    session = FakeSession(
        {
            "toy_preprocess/infer": FakeResponse(200, json.dumps(PREPARED).encode()),
            "toy_postprocess/generate": FakeResponse(200, b'{"text_output": "hi"}'),
        }
    )
    assert run(client(session).detokenize("toy", [104, 105])) == "hi"
    (_, prepared), (_, chunk) = session.asked
    assert {"name": "input_ids", "datatype": "INT32", "shape": [1, 2], "data": [104, 105]} in prepared["inputs"]
    assert (chunk["output_ids"], chunk["stream_context"], chunk["finish_reason"]) == (
        [104, 105],
        '{"stop": []}',
        "length",
    )
