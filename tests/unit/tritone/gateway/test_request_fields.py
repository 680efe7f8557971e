"""The table of fields: complete, and obeyed by both models for every field in valid and invalid form."""

from __future__ import annotations

from typing import Any

import pytest

from ensemble_repo.contract import inputs_of
from tritone.gateway.chat_request import ChatRequest
from tritone.gateway.completion_request import CompletionRequest
from tritone.gateway.openai_error import OpenAIError
from tritone.gateway.request_fields import BOTH, FIELDS, RequestField, Route, fields_of

from .sample_requests import parse

MODELS = {"chat": ChatRequest, "completions": CompletionRequest}

VALID: dict[str, list[Any]] = {
    "model": ["m", "org/模型"],
    "messages": [[{"role": "user", "content": "a"}], [{"role": "assistant", "content": None, "tool_calls": [{}]}]],
    "prompt": ["", "a", ["a", "b"], [1, 2], [[1], [2, 3]]],
    "stream": [True, False],
    "n": [1, 16],
    "best_of": [1],
    "echo": [True, False],
    "max_tokens": [1, 2**31 - 1],
    "max_completion_tokens": [1, 2**31 - 1],
    "min_tokens": [0, 5],
    "temperature": [0, -0.0, 1e-9, 0.7, 2, 3.5],
    "top_p": [0.1, 1],
    "top_k": [-1, 0, 40],
    "min_p": [0, 1],
    "repetition_penalty": [0.5, 1.1],
    "presence_penalty": [-2, 2],
    "frequency_penalty": [-2, 2],
    "seed": [0, -1, -(2**63), 2**64 - 1],
    "stop": ["", "a", [""], ["a", "b"], []],
    "stop_token_ids": [[], [0, 2]],
    "bad_words": [[], ["a"]],
    "ignore_eos": [True, False],
    "include_stop_str_in_output": [True, False],
    "skip_special_tokens": [True, False],
    "tools": [[], [{"type": "function", "function": {"name": "f", "parameters": {}}}]],
    "chat_template_kwargs": [{}, {"enable_thinking": False}],
    "reasoning_effort": ["none", "high"],
    "add_generation_prompt": [True, False],
    "continue_final_message": [True, False],
    "user": ["", "u"],
    "safety_identifier": ["u"],
    "metadata": [{}, {"a": "b"}],
    "prompt_cache_key": ["k"],
    "prompt_cache_options": [{"mode": "implicit"}],
    "prompt_cache_retention": ["24h"],
    "parallel_tool_calls": [True, False],
}
INVALID: dict[str, list[Any]] = {
    "model": ["", 1, ["m"]],
    "messages": [
        "hi",
        [],
        {},
        [1],
        [{"content": "a"}],
        [{"role": 1, "content": "a"}],
        [{"role": "user", "content": 1}],
    ],
    "prompt": [[], [[]], 1, {}, [1, "a"], ["a", 1], [True], [-1], [2**31], [[1], [1.5]], [None]],
    "stream": [1, "true"],
    "stream_options": [1, [], {"include_usage": True}],
    "n": [0, -1, 17, 1_000_000, 2**80, "2", 1.0, True],
    "best_of": [2, 0, "1", True],
    "echo": [1, "yes"],
    "max_tokens": [0, -1, 2**31, 10**18, 10.0, 10.5, "10", True],
    "max_completion_tokens": [0, -1, 2**31, 10.0, "10", True],
    "min_tokens": [-1, 2**31, 1.0, "1"],
    "temperature": [-1, "nan", float("nan"), float("inf"), 1e39, True],
    "top_p": [0, -0.1, 1.1, float("nan"), "1"],
    "top_k": [-2, 2**31, 1.0, "1"],
    "min_p": [-0.1, 1.1, float("nan")],
    "repetition_penalty": [0, -1, float("inf")],
    "presence_penalty": [-2.1, 2.1, float("nan")],
    "frequency_penalty": [-2.1, 2.1, float("nan")],
    "seed": [-(2**63) - 1, 2**64, 1.0, "1", True],
    "stop": [1, [1], ["a", None], {}],
    "stop_token_ids": [[-1], [2**31], ["1"], [True], 1],
    "bad_words": ["a", [1]],
    "ignore_eos": [1, "true"],
    "include_stop_str_in_output": [0],
    "skip_special_tokens": ["false"],
    "tools": [{}, [1], [{"type": "custom", "custom": {"name": "f"}}], [{"type": "function", "function": {}}]],
    "chat_template_kwargs": [[], "a"],
    "reasoning_effort": ["extreme", 1],
    "add_generation_prompt": [1],
    "continue_final_message": ["true"],
    "user": [1],
    "safety_identifier": [1],
    "metadata": [[], {"a": 1}],
    "prompt_cache_key": [1],
    "prompt_cache_options": [1],
    "prompt_cache_retention": [1],
    "parallel_tool_calls": ["true"],
}
REFUSED_VALUES: tuple[Any, ...] = (True, 1, 5, 0.5, "x", ["x"], {"type": "json_object"}, {"97": 5})

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
        parse("chat", response_format={"type": "json_object"})
    assert caught.value.body() == {
        "error": {
            "message": 'response_format: guided decoding is not available yet; allowed: null, {"type": "text"}',
            "type": "invalid_request_error",
            "param": "response_format",
            "code": "unsupported_parameter",
        }
    }


def test_all_fields_of_the_openai_library_are_there() -> None:
    pytest.importorskip("openai")
    from openai.types import completion_create_params as completions
    from openai.types.chat import completion_create_params as chat

    assert set(chat.CompletionCreateParamsBase.__annotations__) <= set(fields_of("chat"))
    assert set(completions.CompletionCreateParamsBase.__annotations__) <= set(fields_of("completions"))
