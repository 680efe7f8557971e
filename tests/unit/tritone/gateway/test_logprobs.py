"""Log probabilities in the forms of both APIs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritone.gateway.answers import ChatAnswer, CompletionAnswer
from tritone.gateway.chunks import ChatStream, CompletionStream
from tritone.gateway.ensemble_client import Event
from tritone.gateway.logprobs import CompletionLogprobs, chat_logprobs, entries_of

from .sample_requests import chat, completion, entry, event

A, B, C = entry("a", -0.5, ("a", -0.5), ("b", -1.0)), entry("b", -1.0, ("a", -0.5)), entry("c")
EMPTY: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
OF_AB = {
    "tokens": ["a", "b"],
    "token_logprobs": [-0.5, -1.0],
    "top_logprobs": [{"a": -0.5, "b": -1.0}, {"a": -0.5, "b": -1.0}],
    "text_offset": [0, 1],
}
OF_C = {"tokens": ["c"], "token_logprobs": [0.0], "top_logprobs": [{"c": 0.0}], "text_offset": [2]}


def told(text: str, *entries: dict[str, Any], made: int = 1, reason: str | None = None) -> Event:
    return event(text, made, reason, 3, json.dumps(entries))


def choices(chunks: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(chunk[6:])["choices"][0] for chunk in chunks]


def test_entries_of_events_that_came_together_are_one_list() -> None:
    events = [told("a", A), told(""), event("x", 1), told("bc", B, C)]
    assert json.loads(entries_of(events)) == [A, B, C]
    assert entries_of([told(""), event("x", 1)]) == ""
    assert json.loads(chat_logprobs("")) == {"content": [], "refusal": None}


def test_lists_of_the_completions_api() -> None:
    logprobs = CompletionLogprobs()
    assert [logprobs.add(json.dumps(entries)) for entries in ([A, B], [], [C])] == [OF_AB, EMPTY, OF_C]
    assert logprobs.add("") == EMPTY


def test_offsets_are_those_of_characters_that_are_complete() -> None:
    tokens = ["é", b"\xf0\x9f", b"\x98\x80", "", "ab", b"\xff", "\ufffd"]
    lists = CompletionLogprobs().add(json.dumps([entry(token) for token in tokens]))
    assert lists["text_offset"] == [0, 1, 1, 2, 2, 4, 5]
    assert lists["tokens"] == ["é", "bytes:\\xf0\\x9f", "bytes:\\x98\\x80", "", "ab", "bytes:\\xff", "\ufffd"]


def test_tokens_that_look_the_same_have_the_first_ones_log_probability() -> None:
    (top,) = CompletionLogprobs().add(json.dumps([entry("x", -3.0, ("a", -1.0), ("a", -2.0))]))["top_logprobs"]
    assert top == {"a": -1.0, "x": -3.0}


@given(st.lists(st.text(max_size=3) | st.binary(max_size=3), max_size=8), st.integers(0, 8))
def test_lists_are_the_same_for_every_way_of_cutting(tokens: list[str | bytes], cut: int) -> None:
    entries = [entry(token, -float(n)) for n, token in enumerate(tokens)]
    whole, parts = CompletionLogprobs(), CompletionLogprobs()
    first, second = (parts.add(json.dumps(part)) for part in (entries[:cut], entries[cut:]))
    assert whole.add(json.dumps(entries)) == {name: first[name] + second[name] for name in first}


@pytest.mark.parametrize("text", ["plain", "é😀", "\u2028"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_offsets_point_into_the_text(text: str, size: int) -> None:
    data = text.encode()
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    offsets = CompletionLogprobs().add(json.dumps([entry(piece) for piece in pieces]))["text_offset"]
    assert offsets == [len(data[: n * size].decode(errors="ignore")) for n in range(len(pieces))]


def test_a_chat_stream() -> None:
    stream = ChatStream(chat(stream=True, logprobs=True), "i", 7)
    found = choices([*stream.start(0), *stream.events(0, [told("", made=0)])])
    found += choices(stream.events(0, [told("a", A), told("", B)]))
    found += choices(stream.events(0, [told("", C, reason="stop")]))
    assert [(choice["delta"].get("content"), choice["logprobs"], choice["finish_reason"]) for choice in found] == [
        ("", None, None),
        ("a", {"content": [A, B], "refusal": None}, None),
        ("", {"content": [C], "refusal": None}, None),
        (None, None, "stop"),
    ]


def test_a_completion_stream_counts_each_choice_on_its_own() -> None:
    stream = CompletionStream(completion(stream=True, logprobs=2, n=2), "i", 7)
    found = choices(stream.events(1, [told("a", A), told("b", B)])) + choices(stream.events(0, [told("ab", A, B)]))
    found += choices(stream.events(1, [told("c", C)])) + choices(stream.events(1, [told("", reason="stop")]))
    assert [(choice["index"], choice["text"], choice["logprobs"]) for choice in found] == [
        (1, "ab", OF_AB),
        (0, "ab", OF_AB),
        (1, "c", OF_C),
        (1, "", None),
    ]


WHOLE_CHAT = ({"content": [A, B, C], "refusal": None}, {"content": [], "refusal": None})
WHOLE_TEXT = ({name: OF_AB[name] + OF_C[name] for name in OF_C}, EMPTY)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ChatAnswer(chat(logprobs=True, n=2), "i", 7), WHOLE_CHAT),
        (CompletionAnswer(completion(logprobs=1, n=2), "i", 7), WHOLE_TEXT),
    ],
    ids=["chat", "completions"],
)
def test_whole_answers(answer: ChatAnswer | CompletionAnswer, expected: tuple[dict[str, Any], dict[str, Any]]) -> None:
    answer.add(0, [told("ab", A, B)])
    answer.add(1, [told("", reason="length")])
    answer.add(0, [told("c", C, reason="stop")])
    assert tuple(choice["logprobs"] for choice in answer.body()["choices"]) == expected


def test_nobody_else_gets_any() -> None:
    (chunk,) = choices(ChatStream(chat(stream=True), "i", 7).events(0, [told("a", A)]))
    (text,) = choices(CompletionStream(completion(stream=True), "i", 7).events(0, [told("a", A)]))
    answer = ChatAnswer(chat(), "i", 7)
    answer.add(0, [told("a", A, reason="stop")])
    assert [chunk["logprobs"], text["logprobs"], answer.body()["choices"][0]["logprobs"]] == [None] * 3


def test_the_openai_library_reads_them() -> None:
    pytest.importorskip("openai")
    from openai.types import Completion
    from openai.types.chat import ChatCompletion, ChatCompletionChunk

    answer = ChatAnswer(chat(logprobs=True), "i", 7)
    answer.add(0, [told("a", A, reason="stop")])
    assert ChatCompletion.model_validate(answer.body()).model_dump(exclude_unset=True) == answer.body()
    (sent, _) = ChatStream(chat(stream=True, logprobs=True), "i", 7).events(0, [told("a", A, reason="stop")])
    chunk = json.loads(sent[6:])
    assert ChatCompletionChunk.model_validate(chunk).model_dump(exclude_unset=True) == chunk
    text = CompletionAnswer(completion(logprobs=2), "i", 7)
    text.add(0, [told("a", A, reason="stop")])
    assert Completion.model_validate(text.body()).model_dump(exclude_unset=True) == text.body()
