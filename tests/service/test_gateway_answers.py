"""What answers hold, whole and streamed: field reports, by number, through a real Triton."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from .gateway import Gateway, Reply, chat, complete, refusal, text_of

pytestmark = pytest.mark.service

MODES = [False, True]


@pytest.mark.parametrize("stream", MODES)
@pytest.mark.parametrize("stop", ["", [""], ["", "zz"]])
def test_b17_empty_stop_is_none(front: Gateway, stop: Any, stream: bool) -> None:
    reply = complete(front, "abc", stop=stop, bad_words=[""], stream=stream)
    assert text_of(reply) == "abc"


@pytest.mark.parametrize("options", [..., {}, None, {"include_usage": False}, {"include_usage": True}])
@pytest.mark.parametrize(("ask", "usage"), [(chat, (20, 9)), (complete, (2, 3))], ids=["chat", "completions"])
def test_b39_usage_only_when_asked(
    front: Gateway, options: Any, ask: Callable[..., Reply], usage: tuple[int, int]
) -> None:
    fields = {} if options is ... else {"stream_options": options}
    *chunks, done = ask(front, "hi", stream=True, **fields).events
    is_asked = options == {"include_usage": True}
    with_usage = [chunk for chunk in chunks if chunk.get("usage")]
    assert done == "[DONE]"
    assert with_usage == (chunks[-1:] if is_asked else [])
    assert [chunk["choices"] == [] for chunk in chunks] == [False] * (len(chunks) - is_asked) + [True] * is_asked
    if is_asked:
        num_prompt, num_made = usage
        assert chunks[-1]["usage"] == {
            "prompt_tokens": num_prompt,
            "completion_tokens": num_made,
            "total_tokens": num_prompt + num_made,
        }


def test_b39_stream_options_need_a_stream(front: Gateway) -> None:
    assert refusal(chat(front, "hi", stream_options={"include_usage": True}))[0] == "stream_options"


def test_continuous_usage_counts_up(front: Gateway) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    *chunks, _ = complete(front, "abcd", stream=True, stream_options=options).events
    made = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert made == sorted(made)
    assert chunks[-1]["usage"] == chunks[-2]["usage"] == {"prompt_tokens": 4, "completion_tokens": 5, "total_tokens": 9}


@pytest.mark.parametrize("stream", MODES)
def test_b41_number_of_answers(front: Gateway, stream: bool) -> None:
    for value in (0, -1, 1_000_000, 17, "2"):
        started_s = time.monotonic()
        assert refusal(complete(front, "a", n=value, stream=stream))[0] == "n"
        assert time.monotonic() - started_s < 1
    assert refusal(complete(front, "a", n=2, best_of=3, stream=stream))[0] == "best_of"
    reply = complete(front, ["ab", "cde"], n=3, seed=5, stream=stream)
    assert [text_of(reply, index) for index in range(6)] == ["ab"] * 3 + ["cde"] * 3
    if stream:
        ends = [choice["index"] for choice in reply.choices if choice["finish_reason"]]
        assert (sorted(ends), reply.events.count("[DONE]")) == (list(range(6)), 1)
    else:
        assert reply.json["usage"] == {"prompt_tokens": 5, "completion_tokens": 21, "total_tokens": 26}


@pytest.mark.parametrize(
    ("prompt", "fields", "text", "reason"),
    [
        ("abc", {"max_tokens": 4}, "abc", "stop"),
        ("abcd", {"max_tokens": 4}, "abcd", "length"),
        ("abcd", {"max_tokens": 4, "stop": "cd"}, "ab", "stop"),
        ("abcde", {"max_tokens": 4, "stop": "de"}, "abcd", "length"),
        ("abcd", {"stop": "cd", "include_stop_str_in_output": True}, "abcd", "stop"),
    ],
)
def test_b44_finish_reason_at_the_boundary(
    front: Gateway, prompt: str, fields: dict[str, Any], text: str, reason: str
) -> None:
    whole, stream = (complete(front, prompt, **fields, stream=stream) for stream in MODES)
    assert text_of(whole) == text_of(stream) == text
    assert whole.json["choices"][0]["finish_reason"] == reason
    assert [one["finish_reason"] for one in stream.choices][-1] == reason
    assert sum(one["finish_reason"] is not None for one in stream.choices) == 1


@pytest.mark.parametrize(
    "piece", ["\n\n", "\r\n", "\r", "data: x", "\u2028", "\u2029", "\u0085", "\0", '"', "\\", "😀"]
)
def test_b46_any_text_is_one_line_of_an_event(front: Gateway, piece: str) -> None:
    for ask, text in ((complete, f"a{piece}b"), (chat, f"[user]a{piece}b")):
        reply = ask(front, f"a{piece}b", stream=True)
        assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert text_of(reply) == text


def test_b62_prompt_is_echoed_only_when_asked(front: Gateway) -> None:
    for stream in MODES:
        assert text_of(complete(front, "Hé", stream=stream)) == "Hé"
        reply = complete(front, ["Hé", "x"], echo=True, n=2, stream=stream)
        assert [text_of(reply, index) for index in range(4)] == ["HéHé", "HéHé", "xx", "xx"]
    assert complete(front, "Hé", echo=True).json["usage"]["completion_tokens"] == 4
    assert refusal(complete(front, [1, 2], echo=True))[0] == "echo"
