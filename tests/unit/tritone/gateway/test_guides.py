"""Guides: all ways to ask for one, and what is wrong with the others."""

from __future__ import annotations

from typing import Any

import pytest

from tritone.gateway.guides import Guide
from tritone.gateway.openai_error import OpenAIError
from tritone.gateway.request_fields import BOTH, Route

from .sample_requests import parse


def refusal(route: Route, **fields: Any) -> tuple[str | None, str]:
    with pytest.raises(OpenAIError) as caught:
        parse(route, **fields)
    assert caught.value.status == 400
    return caught.value.param, caught.value.message.partition(": ")[2]


@pytest.mark.parametrize("route", BOTH)
def test_a_schema_is_a_guide_strict_or_not(route: Route) -> None:
    for strict in (True, False, None):
        named = {"name": "n", "description": "d", "schema": {"a": 1}, "strict": strict}
        request = parse(route, response_format={"type": "json_schema", "json_schema": named})
        assert request.guide == Guide("json_schema", '{"a": 1}')


@pytest.mark.parametrize("route", BOTH)
@pytest.mark.parametrize(
    ("value", "param", "text"),
    [
        ({"type": "json_schema"}, "json_schema", "is required"),
        ({"type": "json_schema", "json_schema": {"name": "n"}}, "json_schema.schema", "is required"),
        (
            {"type": "json_schema", "json_schema": {"schema": [1]}},
            "json_schema.schema",
            "must be an object, got a list",
        ),
        (
            {"type": "text", "json_schema": {"schema": {}}},
            "json_schema",
            'goes with type "json_schema" only, got "text"',
        ),
        ({"type": "xml"}, "type", "must be 'text', 'json_object' or 'json_schema', got \"xml\""),
        ({"type": "text", "x": 1}, "x", "is not known here"),
        ({}, "type", "is required"),
    ],
)
def test_what_is_wrong_with_a_response_format(route: Route, value: Any, param: str, text: str) -> None:
    assert refusal(route, response_format=value) == (f"response_format.{param}", text)


@pytest.mark.parametrize("route", BOTH)
@pytest.mark.parametrize(
    "value", [{}, {"json_object": False}, {"json": {}, "regex": "a"}, {"json": {}, "json_object": True}]
)
def test_structured_outputs_are_one_of_them(route: Route, value: dict[str, Any]) -> None:
    count = 2 if "json" in value else 0
    text = f"has {count} guides, allowed: exactly one of json, regex, choice, grammar and json_object=true"
    assert refusal(route, structured_outputs=value) == ("structured_outputs", text)


@pytest.mark.parametrize("route", BOTH)
@pytest.mark.parametrize(
    ("fields", "param", "text"),
    [
        ({"structured_outputs": {"json": "nonsense"}}, "structured_outputs.json", 'must be an object, got "nonsense"'),
        (
            {"structured_outputs": {"whitespace_pattern": "a"}},
            "structured_outputs.whitespace_pattern",
            "is not known here",
        ),
        ({"guided_json": "[1]"}, "guided_json", "must be an object, got a list"),
        ({"guided_json": "[" * 100_000}, "guided_json", "must be an object, got a string"),
        ({"guided_choice": []}, "guided_choice", "must not be empty, got a list"),
        ({"guided_choice": ["a", 1]}, "guided_choice[1]", "must be a string, got 1"),
        ({"guided_regex": ""}, "guided_regex", 'must not be empty, got ""'),
    ],
)
def test_what_is_wrong_with_a_guide(route: Route, fields: dict[str, Any], param: str, text: str) -> None:
    assert refusal(route, **fields) == (param, text)


GUIDES: dict[str, Any] = {
    "response_format": {"type": "json_object"},
    "structured_outputs": {"regex": "a"},
    "guided_json": {},
    "guided_regex": "a",
    "guided_choice": ["a"],
    "guided_grammar": "g",
}


@pytest.mark.parametrize("route", BOTH)
def test_one_guide_is_all_that_a_request_may_have(route: Route) -> None:
    names = list(GUIDES)
    for n, first in enumerate(names):
        for second in names[n + 1 :]:
            sent = {second: GUIDES[second], first: GUIDES[first]}
            assert refusal(route, **sent) == (second, f"sent together with {first}; send one of them")
        if first != "response_format":
            assert parse(route, response_format={"type": "text"}, **{first: GUIDES[first]}).guide
