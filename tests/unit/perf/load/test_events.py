"""Events of every front as they are on the wire, and how their tokens are counted."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf.load.events import Event, apportion, generate_event, openai_event, read_answer


def test_chat_events() -> None:
    role = b'{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}'
    text = b'{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}'
    thought = b'{"choices":[{"delta":{"reasoning_content":"Hm"}}]}'
    last = b'{"choices":[{"delta":{},"finish_reason":"length"}],"usage":{"prompt_tokens":4,"completion_tokens":7}}'
    usage = b'{"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":7}}'
    assert openai_event(role) == Event()
    assert openai_event(text) == Event("Hi")
    assert openai_event(thought) == Event("Hm")
    assert openai_event(last) == Event("", 7, 4, "length")
    assert openai_event(usage) == Event("", 7, 4)
    assert openai_event(b"[DONE]") == Event(is_end=True)


def test_completion_event() -> None:
    assert openai_event(b'{"choices":[{"text":"a","finish_reason":"stop"}]}') == Event("a", finish_reason="stop")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"error":{"message":"no slot","type":"x"}}', "no slot"),
        (b'{"error":"boom"}', "boom"),
        (b'{"error":{"code":5}}', "{'code': 5}"),
    ],
)
def test_error_events(data: bytes, message: str) -> None:
    assert openai_event(data).error == message
    assert generate_event(data).error == message


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b'"text"'])
def test_events_that_are_none(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        openai_event(data)


def test_generate_events_of_ours_and_of_others() -> None:
    ours = {"text_output": "x", "num_output_tokens": 3, "num_input_tokens": 9, "finish_reason": ""}
    assert generate_event(json.dumps(ours).encode()) == Event("x", 3, 9)
    assert generate_event(json.dumps({**ours, "finish_reason": "stop"}).encode()) == Event("x", 3, 9, "stop")
    assert generate_event(b'{"text_output":"x","model_name":"ensemble"}') == Event("x", is_end=True)


def test_counts_told_with_every_event() -> None:
    answer = read_answer([Event("a", 2), Event("", 2), Event("b", 5), Event("", 5, 8, "stop")], None)
    assert answer.tokens == [2, 0, 3, 0]
    assert (answer.counting, answer.prompt_tokens, answer.finish_reason, answer.has_end) == ("counted", 8, "stop", True)


def test_a_total_at_the_end_is_shared_out_by_length() -> None:
    answer = read_answer([Event("aaaa"), Event("bb"), Event("", 6), Event(is_end=True)], None)
    assert answer.tokens == [4, 2, 0, 0]
    assert answer.counting == "apportioned"


def test_a_tokenizer_counts_where_the_server_does_not() -> None:
    answer = read_answer([Event("aaa"), Event("b")], len)
    assert (answer.tokens, answer.counting, answer.has_end) == ([3, 1], "tokenized", False)


def test_without_either_each_event_with_text_is_a_token() -> None:
    answer = read_answer([Event(""), Event("aaa"), Event("b")], None)
    assert (answer.tokens, answer.counting) == ([0, 1, 1], "one each")


def test_no_events() -> None:
    assert read_answer([], None).tokens == []


@given(st.integers(0, 500), st.lists(st.integers(0, 40), min_size=1, max_size=40))
def test_apportioned_tokens_are_all_there(total: int, weights: list[int]) -> None:
    parts = apportion(total, weights)
    assert sum(parts) == total
    assert len(parts) == len(weights)
    assert min(parts) >= 0
    bringing = [part for part, weight in zip(parts, weights, strict=True) if weight]
    if bringing and total >= len(bringing):
        assert min(bringing) >= 1
        assert all(part == 0 for part, weight in zip(parts, weights, strict=True) if not weight)
