"""What a body may be at all, before any field is looked at."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tritone.gateway.chat_request import ChatRequest
from tritone.gateway.completion_request import CompletionRequest
from tritone.gateway.generation_request import GenerationRequest
from tritone.gateway.openai_error import OpenAIError
from tritone.gateway.request_body import got
from tritone.gateway.request_fields import Route

from .sample_requests import SMALLEST, body, chat


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"", "The body is not JSON: Expecting value: line 1 column 1 (char 0)."),
        (b'{"a":', "The body is not JSON: Expecting value: line 1 column 6 (char 5)."),
        (b"[]", "The body must be a JSON object, got a list."),
        (b"null", "The body must be a JSON object, got null."),
        (b'{"a":"\xff"}', "The body is not UTF-8: byte 6."),
        (b"[" * 100_000, "The body is nested too deep."),
        (b'{"seed":' + b"9" * 5000 + b"}", "The body has a number of too many digits."),
    ],
)
def test_a_body_that_is_no_json_object(sent: bytes, message: str) -> None:
    with pytest.raises(OpenAIError) as caught:
        ChatRequest.parse(sent)
    error = caught.value
    assert (error.status, error.message, error.param, error.code) == (400, message, None, "invalid_json")


@pytest.mark.parametrize("field", ["model", "stop", "messages", "tools", "user"])
def test_half_a_surrogate_pair_is_refused_by_name(field: str) -> None:
    values = {"messages": [{"role": "user", "content": "\ud83d"}], "tools": [{"type": "\ud83d"}]}
    with pytest.raises(OpenAIError, match=r"^[a-z]+: has half of a surrogate pair") as caught:
        chat(**{field: values.get(field, "\ud83d")})
    assert caught.value.param == field


def test_a_whole_surrogate_pair_is_one_character() -> None:
    assert chat(stop="\U0001f600").stop == ["😀"]
    assert b"\\ud83d\\ude00" in body("chat", stop="😀")


def test_numbers_that_are_not_finite_are_refused_deep_inside_too() -> None:
    with pytest.raises(OpenAIError, match=r"^chat_template_kwargs: NaN and Infinity are not allowed$"):
        chat(chat_template_kwargs={"a": [float("nan")]})
    with pytest.raises(OpenAIError, match=r"^temperature: NaN and Infinity are not allowed$"):
        ChatRequest.parse(body("chat", temperature=1).replace(b": 1}", b": 1e999}"))


def test_null_is_as_not_sent_and_the_last_of_two_wins() -> None:
    assert chat(temperature=None, stop=None, stream=None, n=None) == chat()
    assert CompletionRequest.parse(b'{"model":"m","prompt":"a","n":2,"n":3}').n == 3


def test_required_fields() -> None:
    for sent in (b'{"model":"m"}', b'{"model":"m","messages":null}'):
        with pytest.raises(OpenAIError) as caught:
            ChatRequest.parse(sent)
        assert caught.value.message == "messages: is required"
        assert caught.value.code == "missing_required_parameter"


def test_values_in_messages_are_short() -> None:
    assert [got(value) for value in (True, None, 1.5, "ab", "a" * 33, [1], {})] == [
        "true",
        "null",
        "1.5",
        '"ab"',
        "a string",
        "a list",
        "an object",
    ]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(sorted({*ChatRequest.model_fields, *CompletionRequest.model_fields, "logprobs"})) | st.text()


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(names, json_values, max_size=6))
def test_any_json_object_is_taken_or_refused(values: dict[str, object]) -> None:
    models: dict[Route, type[GenerationRequest]] = {"chat": ChatRequest, "completions": CompletionRequest}
    for route, model in models.items():
        try:
            model.parse(json.dumps(SMALLEST[route] | values).encode())
        except OpenAIError as error:
            assert error.status == 400  # noqa: PT017  both outcomes are right
