"""Whole answers, and as the openai library reads them."""

from __future__ import annotations

from typing import Any

import pytest

from tritone.gateway.answers import ChatAnswer, CompletionAnswer
from tritone.gateway.openai_error import OpenAIError

from .sample_requests import chat, completion, event

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def chat_answer(**fields: Any) -> ChatAnswer:
    return ChatAnswer(chat(**fields), "chatcmpl-1", 7)


def completion_answer(**fields: Any) -> CompletionAnswer:
    return CompletionAnswer(completion(**fields), "cmpl-1", 7)


def play(answer: ChatAnswer | CompletionAnswer) -> dict[str, Any]:
    answer.add(0, [event("a", 1, sent=3)])
    answer.add(0, [event("", 1), event("b\u2028", 2, "length", 3)])
    return answer.body()


def test_a_chat_answer() -> None:
    message = {"role": "assistant", "content": "ab\u2028", "refusal": None}
    assert play(chat_answer()) == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "system_fingerprint": None,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "length"}],
        "usage": USAGE,
    }


@pytest.mark.parametrize(("echo", "text"), [(False, "ab\u2028"), (True, "hiab\u2028")])
def test_a_completion(echo: bool, text: str) -> None:
    assert play(completion_answer(echo=echo)) == {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 7,
        "model": "m",
        "system_fingerprint": None,
        "choices": [{"index": 0, "text": text, "logprobs": None, "finish_reason": "length"}],
        "usage": USAGE,
    }


def test_prompts_times_n() -> None:
    answer = completion_answer(prompt=["p", "q"], n=2, echo=True)
    for index in (3, 1, 0, 2):
        answer.add(index, [event(str(index), 1, "stop", 4 if index < 2 else 6)])
    body = answer.body()
    assert [(choice["index"], choice["text"]) for choice in body["choices"]] == [
        (0, "p0"),
        (1, "p1"),
        (2, "q2"),
        (3, "q3"),
    ]
    assert body["usage"] == {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}


def test_an_answer_that_is_not_whole_is_an_error() -> None:
    answer = chat_answer(n=2)
    answer.add(0, [event("a", 1, "stop", 3)])
    with pytest.raises(OpenAIError, match=r"^The answer ended before it was complete\.$"):
        answer.body()
    with pytest.raises(OpenAIError, match=r"^The answer was broken off by the server\.$"):
        answer.add(1, [event("a", 1, "abort", 3)])


def test_the_openai_library_reads_answers() -> None:
    pytest.importorskip("openai")
    from openai.types import Completion
    from openai.types.chat import ChatCompletion

    body = play(chat_answer())
    assert ChatCompletion.model_validate(body).model_dump(exclude_unset=True) == body
    body = play(completion_answer())
    assert Completion.model_validate(body).model_dump(exclude_unset=True) == body
