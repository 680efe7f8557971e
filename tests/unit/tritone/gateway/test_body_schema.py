"""The schemas in the OpenAPI document stand alone, and say what is taken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tritone.gateway.body_schema import body_schema
from tritone.gateway.chat_request import ChatRequest
from tritone.gateway.completion_request import CompletionRequest
from tritone.gateway.strict_model import StrictModel

from .field_values import INVALID, VALID


class Inner(StrictModel):
    a: int


class Outer(StrictModel):
    inner: Inner
    inners: list[Inner]


def test_definitions_are_where_they_are_used() -> None:
    schema = body_schema(Outer)
    assert schema["properties"]["inner"]["properties"] == {"a": {"title": "A", "type": "integer"}}
    assert schema["properties"]["inners"]["items"] == schema["properties"]["inner"]


@pytest.mark.parametrize("model", [ChatRequest, CompletionRequest])
def test_no_reference_is_left(model: type[StrictModel]) -> None:
    assert "$" not in json.dumps(body_schema(model))


@pytest.mark.parametrize(
    ("model", "name"), [(ChatRequest, "messages"), (CompletionRequest, "prompt"), (ChatRequest, "stop")]
)
def test_what_is_converted_is_described_as_it_is_sent(model: type[StrictModel], name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")  # comes with libraries that other tests need
    validator: Any = jsonschema.Draft202012Validator(body_schema(model)["properties"][name])
    assert [value for value in VALID[name] if not validator.is_valid(value)] == []
    too_much = ([2**31],)  # its limit is that of every token id, and not worth a schema
    assert [value for value in INVALID[name] if validator.is_valid(value) and value not in too_much] == []
