from __future__ import annotations

import pytest

from preprocess.errors import InvalidRequest
from preprocess.json_text import json_type, parse_json


def test_json_is_returned_as_python() -> None:
    assert parse_json("messages", '[{"a": null}]', list) == [{"a": None}]


def test_a_surrogate_pair_is_one_character() -> None:
    assert parse_json("messages", r'["\ud83d\ude00"]', list) == ["😀"]


@pytest.mark.parametrize("text", [r'["\ud83d"]', r'[{"\uD83D": 1}]', r'["\ude00\ud83d"]'])
def test_a_lone_surrogate_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^messages: has half of a surrogate pair"):
        parse_json("messages", text, list)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "must be a JSON list: Expecting value: line 1 column 1"),
        ("hello", "must be a JSON list: Expecting value"),
        ("[NaN]", "must be a JSON list: NaN is not JSON"),
        ("[-Infinity]", "must be a JSON list: -Infinity is not JSON"),
        ("{}", "must be a JSON list, got an object"),
        ("null", "must be a JSON list, got null"),
        ("[" * 100_000, "is nested too deep"),
        ("[" + "9" * 5000 + "]", "must be a JSON list: Exceeds the limit"),
    ],
)
def test_anything_else_is_refused_in_words(text: str, error: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_json("tools", text, list)
    assert str(caught.value).startswith(f"tools: {error}")


def test_types_are_called_what_json_calls_them() -> None:
    values: list[object] = [None, True, False, 1, 1.5, "x", [], {}]
    words = ["null", "true", "false", "a number", "a number", "a string", "a list", "an object"]
    assert [json_type(value) for value in values] == words
