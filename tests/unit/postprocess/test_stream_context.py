from __future__ import annotations

import json

import pytest

from postprocess.stream_context import StreamContext

FIELDS = {
    "stop": ["\n", ""],
    "include_stop": True,
    "skip_special": False,
    "stream": False,
    "logprobs": True,
    "end_ids": [2, 257],
    "min_tokens": 2,
    "num_input_tokens": 3,
    "echo_text": "Hi\u0000",
    "echo_ids": [1, -1],
}


def test_every_field_is_read() -> None:
    assert StreamContext.parse(json.dumps(FIELDS)) == StreamContext(
        stop=("\n", ""),
        include_stop=True,
        skip_special=False,
        is_stream=False,
        has_logprobs=True,
        end_ids=frozenset({2, 257}),
        min_tokens=2,
        num_input_tokens=3,
        echo_text="Hi\u0000",
        echo_ids=(1, -1),
    )


@pytest.mark.parametrize("name", FIELDS)
def test_a_missing_field_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^stream_context\.{name} is missing; it must be "):
        StreamContext.parse(json.dumps({key: value for key, value in FIELDS.items() if key != name}))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("stop", "x", "stop must be a list of strings, got 'x'"),
        ("stop", [1], "stop must be a list of strings, got [1]"),
        ("include_stop", 1, "include_stop must be true or false, got 1"),
        ("skip_special", None, "skip_special must be true or false, got None"),
        ("stream", "true", "stream must be true or false, got 'true'"),
        ("logprobs", None, "logprobs must be true or false, got None"),
        ("end_ids", [True], "end_ids must be a list of integers, got [True]"),
        ("num_input_tokens", -1, "num_input_tokens must be an integer from 0 on, got -1"),
        ("num_input_tokens", 1.0, "num_input_tokens must be an integer from 0 on, got 1.0"),
        ("echo_text", None, "echo_text must be a string, got None"),
        ("echo_ids", {}, "echo_ids must be a list of integers, got {}"),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(name: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=name) as caught:
        StreamContext.parse(json.dumps({**FIELDS, name: value}))
    assert str(caught.value) == f"stream_context.{message}"


def test_an_unknown_field_is_named() -> None:
    with pytest.raises(ValueError, match=r"^stream_context\.echo is not known; known are stop, include_stop, "):
        StreamContext.parse(json.dumps({**FIELDS, "echo": True}))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "5"])
def test_anything_but_a_json_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^stream_context must be a JSON object"):
        StreamContext.parse(text)
