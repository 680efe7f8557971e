"""Streams of chunks, byte for byte, and as the openai library reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tritone.gateway import sse
from tritone.gateway.chunks import ChatStream, CompletionStream, new_id
from tritone.gateway.openai_error import OpenAIError

from .sample_requests import chat, completion, event

CHAT_HEAD = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m","system_fingerprint":null,'
    b'"choices":['
)
TEXT_HEAD = (
    b'data: {"id":"cmpl-1","object":"text_completion","created":7,"model":"m","system_fingerprint":null,"choices":['
)
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def chat_stream(**fields: Any) -> ChatStream:
    return ChatStream(chat(stream=True, **fields), "chatcmpl-1", 7)


def completion_stream(**fields: Any) -> CompletionStream:
    return CompletionStream(completion(stream=True, **fields), "cmpl-1", 7)


def play(stream: ChatStream | CompletionStream) -> list[bytes]:
    """One choice: two tokens, one event each, and the end."""
    parts = [stream.start(0), stream.events(0, [event("a", 1, sent=3)])]
    parts += [stream.events(0, [event("b", 2, "stop", 3)]), stream.finish()]
    return [chunk for part in parts for chunk in part]


def objects(chunks: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(chunk[6:]) for chunk in chunks if chunk != sse.DONE]


def test_a_chat_stream() -> None:
    assert play(chat_stream()) == [
        CHAT_HEAD + b'{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}\n\n',
        CHAT_HEAD + b'{"index":0,"delta":{"content":"a"},"logprobs":null,"finish_reason":null}]}\n\n',
        CHAT_HEAD + b'{"index":0,"delta":{"content":"b"},"logprobs":null,"finish_reason":null}]}\n\n',
        CHAT_HEAD + b'{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}\n\n',
        sse.DONE,
    ]


def test_a_completion_stream() -> None:
    assert play(completion_stream(echo=True)) == [
        TEXT_HEAD + b'{"index":0,"text":"hi","logprobs":null,"finish_reason":null}]}\n\n',
        TEXT_HEAD + b'{"index":0,"text":"a","logprobs":null,"finish_reason":null}]}\n\n',
        TEXT_HEAD + b'{"index":0,"text":"b","logprobs":null,"finish_reason":"stop"}]}\n\n',
        sse.DONE,
    ]


@pytest.mark.parametrize("make", [chat_stream, completion_stream])
def test_usage_comes_only_when_asked_for(make: Any) -> None:
    for options in (None, {}, {"include_usage": False}):
        assert all("usage" not in chunk for chunk in objects(play(make(stream_options=options))))
    *chunks, last = objects(play(make(stream_options={"include_usage": True})))
    assert [chunk["usage"] for chunk in chunks] == [None] * len(chunks)
    assert (last["choices"], last["usage"]) == ([], USAGE)


@pytest.mark.parametrize("make", [chat_stream, completion_stream])
def test_usage_in_every_chunk(make: Any) -> None:
    chunks = objects(play(make(stream_options={"continuous_usage_stats": True})))
    assert all(chunk["choices"] for chunk in chunks)
    made = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert made == ([0, 1, 2, 2] if make is chat_stream else [1, 2])
    assert chunks[-1]["usage"] == USAGE


@pytest.mark.parametrize("make", [chat_stream, completion_stream])
def test_events_that_came_together_are_one_chunk_and_empty_ones_none(make: Any) -> None:
    stream = make()
    (chunk,) = objects(stream.events(0, [event("a", 1), event("", 2), event("b", 3)]))
    choice = chunk["choices"][0]
    assert (choice["delta"]["content"] if "delta" in choice else choice["text"]) == "ab"
    assert stream.events(0, [event("", 3)]) == []


def test_an_empty_answer_still_ends() -> None:
    assert [
        c["choices"][0]["finish_reason"] for c in objects(chat_stream().events(0, [event("", 1, "length", 3)]))
    ] == ["length"]
    (chunk,) = objects(completion_stream().events(0, [event("", 1, "length", 3)]))
    assert chunk["choices"][0] == {"index": 0, "text": "", "logprobs": None, "finish_reason": "length"}


@pytest.mark.parametrize("make", [chat_stream, completion_stream])
def test_choices_may_interleave_and_each_ends_once(make: Any) -> None:
    stream = make(n=3, stream_options={"include_usage": True})
    chunks = [chunk for index in (2, 0, 1, 2, 1, 0) for chunk in stream.events(index, [event("x", 1, sent=4)])]
    chunks += [chunk for index in (1, 2, 0) for chunk in stream.events(index, [event("", 2, "stop", 4)])]
    *rest, done = [*chunks, *stream.finish()]
    choices = [chunk["choices"][0] for chunk in objects(rest) if chunk["choices"]]
    assert [choice["index"] for choice in choices] == [2, 0, 1, 2, 1, 0, 1, 2, 0]
    assert [choice["index"] for choice in choices if choice["finish_reason"]] == [1, 2, 0]
    assert done == sse.DONE
    assert objects(rest)[-1]["usage"] == {"prompt_tokens": 4, "completion_tokens": 6, "total_tokens": 10}


@pytest.mark.parametrize("make", [chat_stream, completion_stream])
@pytest.mark.parametrize("reason", ["abort", "error"])
def test_an_answer_broken_off_is_an_error_without_done(make: Any, reason: str) -> None:
    stream = make()
    with pytest.raises(OpenAIError, match=r"^The answer was broken off by the server\.$"):
        stream.events(0, [event("a", 1, reason, 3)])
    with pytest.raises(OpenAIError, match=r"^The answer ended before it was complete\.$"):
        stream.finish()


def test_ids_are_unique() -> None:
    assert new_id("cmpl").startswith("cmpl-")
    assert len({new_id("chatcmpl") for _ in range(100)}) == 100


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.text(max_size=4), min_size=1, max_size=3), max_size=5))
def test_no_text_is_lost(batches: list[list[str]]) -> None:
    for stream in (chat_stream(), completion_stream()):
        chunks = [c for batch in batches for c in stream.events(0, [event(text, 1) for text in batch])]
        assert all(chunk.isascii() and chunk.count(b"\n") == 2 for chunk in chunks)
        choices = [chunk["choices"][0] for chunk in objects(chunks)]
        texts = [choice["delta"]["content"] if "delta" in choice else choice["text"] for choice in choices]
        assert "".join(texts) == "".join(text for batch in batches for text in batch)


def test_the_openai_library_reads_every_chunk() -> None:
    pytest.importorskip("openai")
    from openai.types import Completion
    from openai.types.chat import ChatCompletionChunk

    options = {"include_usage": True, "continuous_usage_stats": True}
    for stream, kind in (
        (chat_stream(), ChatCompletionChunk),
        (chat_stream(stream_options=options), ChatCompletionChunk),
    ):
        for chunk in objects(play(stream)):
            assert kind.model_validate(chunk).model_dump(exclude_unset=True) == chunk
    *texts, last = objects(play(completion_stream(stream_options=options)))
    assert Completion.model_validate(last).model_dump(exclude_unset=True) == last
    for chunk in texts[
        :-1
    ]:  # the library's type wants a finish reason in every chunk, which its own service omits, too
        assert Completion.model_construct(**chunk).model_dump(exclude_unset=True) == chunk
