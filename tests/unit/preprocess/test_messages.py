from __future__ import annotations

from typing import Any

import pytest

from preprocess.errors import InvalidRequest
from preprocess.messages import normalize_messages

CALL = {"id": "1", "type": "function", "function": {"name": "now", "arguments": '{"zone": "CET"}'}}


def text_part(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("content", "expected"),
    [("hi", "hi"), ("", ""), ([], ""), ([text_part("A"), text_part("B")], "AB"), ([text_part("")], "")],
)
def test_content_becomes_one_string(content: Any, expected: str) -> None:
    assert normalize_messages([{"role": "user", "content": content}]) == [{"role": "user", "content": expected}]


def test_null_and_missing_content_of_a_tool_call_are_the_same() -> None:
    missing = {"role": "assistant", "tool_calls": [CALL]}
    assert normalize_messages([{**missing, "content": None}]) == normalize_messages([missing])


def test_arguments_sent_as_text_become_an_object() -> None:
    (message,) = normalize_messages([{"role": "assistant", "tool_calls": [CALL]}])
    function = {"name": "now", "arguments": {"zone": "CET"}}
    assert message == {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}


@pytest.mark.parametrize("arguments", ["", None, {}, "{}"])
def test_no_arguments_are_an_empty_object(arguments: Any) -> None:
    call = {"function": {"name": "now", "arguments": arguments}}
    (message,) = normalize_messages([{"role": "assistant", "tool_calls": [call]}])
    assert message["tool_calls"][0]["function"]["arguments"] == {}


def test_what_the_template_may_want_passes_and_the_input_is_not_changed() -> None:
    sent = {"role": "tool", "content": "12:00", "tool_call_id": "1", "name": None}
    assert normalize_messages([sent]) == [{"role": "tool", "content": "12:00", "tool_call_id": "1"}]
    assert sent["name"] is None


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([], "messages: is an empty list, needs at least one message"),
        (["hi"], "messages[0]: must be an object, got a string"),
        ([{"content": "hi"}], 'messages[0].role: must be a string such as "user", got null'),
        (
            [{"role": "user", "content": None}],
            "messages[0].content: must be a string or a list of text parts, got null; "
            "only an assistant message with tool_calls may leave it out",
        ),
        (
            [{"role": "user", "content": 5}],
            "messages[0].content: must be a string or a list of text parts, got a number",
        ),
        (
            [{"role": "user", "content": [text_part("A"), {"type": "image_url", "image_url": {"url": "x"}}]}],
            "messages[0].content[1]: has type 'image_url'; this model takes text parts only",
        ),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text: must be a string, got null"),
        (
            [{"role": "user", "content": ["A"]}],
            'messages[0].content[0]: must be an object such as {"type": "text", "text": "…"}, got a string',
        ),
        ([{"role": "assistant", "tool_calls": 1}], "messages[0].tool_calls: must be a list, got a number"),
        (
            [{"role": "assistant", "tool_calls": [{}]}],
            "messages[0].tool_calls[0]: must be an object whose function has a name",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": "now", "arguments": "[1]"}}]}],
            "messages[0].tool_calls[0].function.arguments: must be a JSON object, got a list",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": "now", "arguments": [1]}}]}],
            "messages[0].tool_calls[0].function.arguments: must be an object, got a list",
        ),
    ],
)
def test_a_wrong_shape_is_refused_with_its_place(messages: list[Any], text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        normalize_messages(messages)
    assert str(caught.value) == text


def test_a_second_message_is_counted_from_zero() -> None:
    with pytest.raises(InvalidRequest, match=r"^messages\[1\]\.content: "):
        normalize_messages([{"role": "user", "content": "a"}, {"role": "assistant", "content": None}])
