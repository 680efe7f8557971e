"""Requests as inputs of the ensemble, and its errors as the client sees them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ensemble_repo.contract import TOO_MANY_REQUESTS, inputs_of
from tritone.gateway.ensemble_client import EnsembleError
from tritone.gateway.to_ensemble import ensemble_inputs, from_ensemble

from .sample_requests import chat, completion

COMMON: dict[str, Any] = {
    "max_tokens": 5,
    "min_tokens": 1,
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 40,
    "min_p": 0.1,
    "repetition_penalty": 1.1,
    "presence_penalty": 0.5,
    "frequency_penalty": -0.5,
    "stop_token_ids": [7],
    "bad_words": ["b"],
    "ignore_eos": True,
    "include_stop_str_in_output": True,
    "skip_special_tokens": False,
}


def test_smallest_requests() -> None:
    assert ensemble_inputs(completion()) == [{"stream": True, "text_input": "hi"}]
    assert ensemble_inputs(chat()) == [{"stream": True, "messages": '[{"role": "user", "content": "hi"}]'}]


def test_every_field_arrives() -> None:
    request = completion(**COMMON, stop="x", seed=5, prompt=[1, 2])
    assert ensemble_inputs(request) == [COMMON | {"stream": True, "stop_words": ["x"], "seed": 5, "input_ids": [1, 2]}]


def test_every_field_of_a_chat_arrives() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    request = chat(
        **COMMON,
        tools=tools,
        max_completion_tokens=6,
        chat_template_kwargs={"a": 1},
        reasoning_effort="low",
        add_generation_prompt=False,
        continue_final_message=True,
    )
    (inputs,) = ensemble_inputs(request)
    assert json.loads(inputs.pop("messages")) == request.messages
    assert json.loads(inputs.pop("tools")) == tools
    assert json.loads(inputs.pop("chat_template_kwargs")) == {"reasoning_effort": "low", "a": 1}
    chat_only = {"max_tokens": 6, "add_generation_prompt": False, "continue_final_message": True}
    assert inputs == COMMON | chat_only | {"stream": True}


def test_reasoning_effort_alone_is_for_the_template() -> None:
    (inputs,) = ensemble_inputs(chat(reasoning_effort="high"))
    assert inputs["chat_template_kwargs"] == '{"reasoning_effort": "high"}'


def test_empty_lists_and_empty_words_are_left_out() -> None:
    request = chat(stop=["", "x"], bad_words=[""], stop_token_ids=[], tools=[], chat_template_kwargs={})
    assert ensemble_inputs(request)[0].keys() == {"stream", "messages", "stop_words"}
    assert ensemble_inputs(chat(stop=""))[0].keys() == {"stream", "messages"}


def test_the_developer_speaks_as_the_system() -> None:
    messages = [{"role": "developer", "content": "é", "name": "d"}, {"role": "user", "content": "hi"}]
    (inputs,) = ensemble_inputs(chat(messages=messages))
    assert json.loads(inputs["messages"]) == [{"role": "system", "content": "é", "name": "d"}, messages[1]]


def test_choices_are_prompts_times_n_with_seeds_of_their_own() -> None:
    inputs = ensemble_inputs(completion(prompt=["a", "b"], n=2, seed=2**64 - 1))
    assert [(choice["text_input"], choice["seed"]) for choice in inputs] == [
        ("a", 2**64 - 1),
        ("a", 0),
        ("b", 2**64 - 1),
        ("b", 0),
    ]
    assert [choice["seed"] for choice in ensemble_inputs(chat(n=2, seed=-1))] == [2**64 - 1, 0]


def test_log_probabilities_are_asked_for_only_when_asked() -> None:
    names = {"return_log_probs", "top_logprobs"}
    silent = (chat(), chat(logprobs=False), chat(logprobs=False, top_logprobs=0), chat(top_logprobs=0), completion())
    for request in silent:
        assert not names & ensemble_inputs(request)[0].keys()
    for request, count in (
        (chat(logprobs=True), 0),
        (chat(logprobs=True, top_logprobs=20), 20),
        (completion(logprobs=0), 0),
        (completion(logprobs=20), 20),
    ):
        (inputs,) = ensemble_inputs(request)
        assert {name: inputs[name] for name in names} == {"return_log_probs": True, "top_logprobs": count}


SCHEMA = {"type": "object", "title": "é"}
GUIDED: list[tuple[dict[str, Any], str, str | None]] = [
    ({"response_format": {"type": "json_object"}}, "json", None),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}}, "json_schema", "é"),
    ({"structured_outputs": {"json": SCHEMA}}, "json_schema", "é"),
    ({"structured_outputs": {"json": json.dumps(SCHEMA)}}, "json_schema", "é"),
    ({"structured_outputs": {"regex": "a+", "json_object": False, "choice": None}}, "regex", "a+"),
    ({"structured_outputs": {"choice": ["é"]}}, "choice", "é"),
    ({"structured_outputs": {"grammar": "g"}}, "ebnf_grammar", "g"),
    ({"structured_outputs": {"json_object": True}}, "json", None),
    ({"guided_json": SCHEMA}, "json_schema", "é"),
    ({"guided_json": json.dumps(SCHEMA)}, "json_schema", "é"),
    ({"guided_regex": "a+"}, "regex", "a+"),
    ({"guided_choice": ["é"]}, "choice", "é"),
    ({"guided_grammar": "g"}, "ebnf_grammar", "g"),
    ({"guided_regex": "a+", "response_format": {"type": "text"}}, "regex", "a+"),
]


@pytest.mark.parametrize(("fields", "kind", "guide"), GUIDED)
def test_guides_become_nvidias(fields: dict[str, Any], kind: str, guide: str | None) -> None:
    for request in (chat(**fields), completion(**fields)):
        (inputs,) = ensemble_inputs(request)
        assert inputs["guided_decoding_guide_type"] == kind
        expected = {"é": SCHEMA if kind == "json_schema" else ["é"]}.get(str(guide), guide)
        sent = inputs.get("guided_decoding_guide")
        assert (json.loads(sent) if kind in ("json_schema", "choice") else sent) == expected


@pytest.mark.parametrize("fields", [{}, {"response_format": {"type": "text"}}])
def test_a_free_answer_has_no_guide(fields: dict[str, Any]) -> None:
    assert "guided_decoding_guide_type" not in ensemble_inputs(chat(**fields))[0]


@pytest.mark.parametrize(("fields", "kind", "guide"), GUIDED)
def test_what_the_engine_refuses_of_a_guide_has_the_clients_name(
    fields: dict[str, Any], kind: str, guide: str | None
) -> None:
    name = next(field for field, value in fields.items() if value != {"type": "text"})
    for request in (chat(**fields), completion(**fields)):
        for field in ("guided_decoding_guide_type", "guided_decoding_guide"):
            error = from_ensemble(request, EnsembleError(400, f"{field}: cannot be guided"), "r", 429)
            assert (error.param, error.message) == (name, f"{name}: cannot be guided")


def test_what_the_engine_refuses_of_log_probabilities_has_the_clients_name() -> None:
    for request in (chat(logprobs=True, top_logprobs=3), completion(logprobs=3)):
        error = from_ensemble(request, EnsembleError(400, "return_log_probs: gives none"), "r", 429)
        assert (error.param, error.message) == ("logprobs", "logprobs: gives none")


def test_only_declared_inputs_are_sent() -> None:
    declared = {tensor.name for tensor in inputs_of("preprocess") if tensor.source == "client"}
    assert ensemble_inputs(chat(**COMMON, stop="x", seed=1))[0].keys() <= declared


@pytest.mark.parametrize(
    ("message", "param", "text"),
    [
        ("stop_words: has 65 entries, allowed: 64", "stop", "stop: has 65 entries, allowed: 64"),
        ("text_input: the prompt has no tokens", "prompt", "prompt: the prompt has no tokens"),
        ("input_ids: has token id 9, allowed: 0 to 8", "prompt", "prompt: has token id 9, allowed: 0 to 8"),
        ("min_p: got 2.0, allowed: 0 to 1", "min_p", "min_p: got 2.0, allowed: 0 to 1"),
        ("something else went wrong", None, "something else went wrong"),
        ("beam_width: is odd", None, "beam_width: is odd"),
    ],
)
def test_names_of_the_ensemble_become_those_of_the_request(message: str, param: str | None, text: str) -> None:
    error = from_ensemble(completion(), EnsembleError(400, message), "r", 429)
    assert (error.status, error.param, error.message) == (400, param, text)


def test_places_inside_a_field_stay() -> None:
    error = from_ensemble(chat(), EnsembleError(400, "messages[1].content[0]: has type: odd"), "r", 429)
    assert (error.param, error.message) == ("messages[1].content[0]", "messages[1].content[0]: has type: odd")


@pytest.mark.parametrize(
    ("sent", "param"),
    [
        ({"max_tokens": 500}, "max_tokens"),
        ({"max_completion_tokens": 500}, "max_completion_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": 500}, "max_completion_tokens"),
    ],
)
def test_too_long_for_the_context(sent: dict[str, int], param: str) -> None:
    message = "got 500, allowed: 10 (context 64 minus 54 tokens of prompt)"
    error = from_ensemble(chat(**sent), EnsembleError(400, f"max_tokens: {message}"), "r", 429)
    assert error.message == f"This model's maximum context length is 64 tokens. {param}: {message}"
    assert (error.param, error.code) == (param, "context_length_exceeded")


def test_a_prompt_of_too_many_characters_is_too_long_as_well() -> None:
    message = "messages: the prompt has 900 characters, allowed: 800"
    error = from_ensemble(chat(), EnsembleError(400, message), "r", 429)
    assert (error.message, error.param, error.code) == (message, "messages", "context_length_exceeded")


def test_other_errors() -> None:
    missing = from_ensemble(chat(), EnsembleError(404, "Request for unknown model: 'm' is not found"), "r", 429)
    assert (missing.status, missing.code, missing.param) == (404, "model_not_found", "model")
    assert missing.message == "The model 'm' does not exist."
    away = from_ensemble(chat(), EnsembleError(503, "the engine stage has ended: secret inner detail"), "r", 429)
    assert (away.status, away.code) == (503, "service_unavailable")
    assert away.message == "The model server is not available; try again."
    assert not EnsembleError(500, f"{TOO_MANY_REQUESTS}: 8 streams").is_overload
    broken = from_ensemble(chat(), EnsembleError(500, "secret inner detail"), "r-1", 429)
    assert (broken.status, broken.type) == (500, "server_error")
    assert broken.message == "The server had an error while processing your request. Request id: r-1"


@pytest.mark.parametrize(("status", "code"), [(429, "rate_limit_exceeded"), (503, "service_unavailable")])
def test_a_full_engine_is_the_status_for_overload(status: int, code: str) -> None:
    error = from_ensemble(chat(), EnsembleError(503, f"{TOO_MANY_REQUESTS}: all 8 rows are in use"), "r", status)
    assert (error.status, error.code, error.message) == (status, code, "The server has too many requests; try again.")
