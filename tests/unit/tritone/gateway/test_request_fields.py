"""The table of fields: complete, and obeyed by both models for every field in valid and invalid form."""

from __future__ import annotations

import pytest

from ensemble_repo.contract import inputs_of
from tritone.gateway.chat_request import ChatRequest
from tritone.gateway.completion_request import CompletionRequest
from tritone.gateway.openai_error import OpenAIError
from tritone.gateway.request_fields import BOTH, FIELDS, RequestField, Route, fields_of

from .field_values import INVALID, REFUSED_VALUES, VALID
from .sample_requests import parse

MODELS = {"chat": ChatRequest, "completions": CompletionRequest}

CASES = [(field, route) for field in FIELDS for route in field.routes]


def test_every_field_is_there_once_for_each_route() -> None:
    assert len(CASES) == sum(len(fields_of(route)) for route in BOTH)


@pytest.mark.parametrize("route", BOTH)
def test_models_declare_what_is_not_refused(route: Route) -> None:
    assert set(MODELS[route].model_fields) == {f.name for f in fields_of(route).values() if f.use != "refused"}


def test_every_ensemble_input_named_exists() -> None:
    named = {name for field in FIELDS for name in field.ensemble.split(", ") if name}
    assert named <= {tensor.name for tensor in inputs_of("preprocess") if tensor.source == "client"}


@pytest.mark.parametrize(("field", "route"), CASES)
@pytest.mark.parametrize("is_stream", [False, True])
def test_valid_values_are_taken(field: RequestField, route: Route, is_stream: bool) -> None:
    values = field.neutral if field.use == "refused" else VALID.get(field.name, [])
    for value in (*values, None):
        if value is not None or field.name not in ("model", "messages", "prompt"):
            parse(route, **{"stream": is_stream, field.name: value})


@pytest.mark.parametrize(("field", "route"), CASES)
@pytest.mark.parametrize("is_stream", [False, True])
def test_invalid_values_are_refused_by_name(field: RequestField, route: Route, is_stream: bool) -> None:
    values = REFUSED_VALUES if field.use == "refused" else INVALID[field.name]
    for value in values:
        if field.takes(value) or (field.name, is_stream, value) == ("stream_options", True, {"include_usage": True}):
            continue
        with pytest.raises(OpenAIError) as caught:
            parse(route, **{"stream": is_stream, field.name: value})
        error = caught.value
        assert (error.status, error.type) == (400, "invalid_request_error")
        assert str(error.param).partition("[")[0].partition(".")[0] == field.name
        assert error.message.startswith(f"{error.param}: ")


@pytest.mark.parametrize("route", BOTH)
def test_unknown_fields_are_refused_with_a_hint(route: Route) -> None:
    with pytest.raises(OpenAIError, match=r"^max_new_tokens: is not a field of this route; did you mean max_tokens\?$"):
        parse(route, max_new_tokens=5)
    with pytest.raises(OpenAIError) as caught:
        parse(route, **{"\ud83d": 5})
    assert (caught.value.param, caught.value.code) == ("\\ud83d", "unknown_parameter")


def test_the_text_of_a_refusal() -> None:
    with pytest.raises(OpenAIError) as caught:
        parse("chat", tool_choice="required")
    assert caught.value.body() == {
        "error": {
            "message": 'tool_choice: that the model calls a tool cannot be enforced yet; allowed: null, "auto", "none"',
            "type": "invalid_request_error",
            "param": "tool_choice",
            "code": "unsupported_parameter",
        }
    }


def test_all_fields_of_the_openai_library_are_there() -> None:
    pytest.importorskip("openai")
    from openai.types import completion_create_params as completions
    from openai.types.chat import completion_create_params as chat

    assert set(chat.CompletionCreateParamsBase.__annotations__) <= set(fields_of("chat"))
    assert set(completions.CompletionCreateParamsBase.__annotations__) <= set(fields_of("completions"))
