"""Messages and tools of a chat request."""

from __future__ import annotations

from typing import Any

import pytest

from tritone.gateway.openai_error import OpenAIError

from .sample_requests import chat


@pytest.mark.parametrize(
    ("message", "param", "text"),
    [
        ({"content": "a"}, "messages[0].role", 'must be a string such as "user", got null'),
        ({"role": "user", "content": 5}, "messages[0].content", "must be a string or a list of text parts, got 5"),
        (
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]},
            "messages[0].content[1]",
            'has type "image_url"; this model takes text parts only',
        ),
        ({"role": "user", "content": ["text"]}, "messages[0].content[0]", 'must be an object, got "text"'),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0].text", "must be a string, got null"),
    ],
)
def test_what_is_wrong_with_a_message(message: dict[str, Any], param: str, text: str) -> None:
    with pytest.raises(OpenAIError) as caught:
        chat(messages=[message])
    assert (caught.value.param, caught.value.message) == (param, f"{param}: {text}")


def test_everything_else_in_a_message_passes() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "name": "u", "content": []},
        {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "5"},
    ]
    assert chat(messages=messages).messages == messages


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({}, None),
        ({"logprobs": False}, None),
        ({"top_logprobs": 0}, None),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 20}, 20),
    ],
)
def test_log_probabilities_asked_for(fields: dict[str, Any], count: int | None) -> None:
    assert chat(**fields).num_top_logprobs == count


@pytest.mark.parametrize("fields", [{}, {"logprobs": False}, {"logprobs": None}])
def test_the_likeliest_tokens_come_with_log_probabilities_only(fields: dict[str, Any]) -> None:
    with pytest.raises(OpenAIError) as caught:
        chat(top_logprobs=1, **fields)
    assert (caught.value.param, caught.value.message) == ("top_logprobs", "top_logprobs: needs logprobs=true")


def test_contradiction() -> None:
    with pytest.raises(OpenAIError) as caught:
        chat(add_generation_prompt=True, continue_final_message=True)
    assert caught.value.param == "continue_final_message"
