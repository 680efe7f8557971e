"""`/tokenize` and `/detokenize`: vLLM's shapes in, the ensemble's inputs out, and its errors under vLLM's names."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tritone.gateway.ensemble_client import EnsembleError, ModelInfo
from tritone.gateway.openai_error import OpenAIError
from tritone.gateway.tokenization import DetokenizeRequest, TokenizeRequest, detokenize, tokenize

from .fake_ensemble import FakeEnsemble

MODEL = ModelInfo("m", 64, "m")
MESSAGES = [{"role": "user", "content": "é"}]


def sent_inputs(**fields: Any) -> Any:
    ensemble = FakeEnsemble()
    request = TokenizeRequest.parse(json.dumps({"model": "m", **fields}).encode())
    asyncio.run(tokenize(ensemble, MODEL, request))  # type: ignore[arg-type]
    return ensemble.asked[0][1]


def test_inputs_are_the_ensembles() -> None:
    assert sent_inputs(prompt="é") == {"text_input": "é"}
    assert sent_inputs(prompt="") == {"text_input": ""}
    options = {"add_generation_prompt": False, "continue_final_message": True}
    inputs = sent_inputs(messages=MESSAGES, tools=[], chat_template_kwargs={"a": 1}, **options)
    assert {**inputs, "messages": json.loads(inputs["messages"])} == {
        "messages": MESSAGES,
        "tools": "[]",
        "chat_template_kwargs": '{"a": 1}',
        **options,
    }


@pytest.mark.parametrize(
    ("kind", "fields", "param"),
    [
        (TokenizeRequest, {}, "prompt"),
        (TokenizeRequest, {"prompt": None}, "prompt"),
        (TokenizeRequest, {"prompt": "a", "messages": MESSAGES}, "prompt"),
        (TokenizeRequest, {"prompt": [1]}, "prompt"),
        (TokenizeRequest, {"prompt": "a", "model": ""}, "model"),
        (TokenizeRequest, {"prompt": "a", "return_token_strs": True}, "return_token_strs"),
        (TokenizeRequest, {"prompt": "\ud83d"}, "prompt"),
        (DetokenizeRequest, {}, "tokens"),
        (DetokenizeRequest, {"tokens": []}, "tokens"),
        (DetokenizeRequest, {"tokens": [True]}, "tokens[0]"),
        (DetokenizeRequest, {"tokens": [1, -1]}, "tokens[1]"),
        (DetokenizeRequest, {"tokens": [2**31]}, "tokens[0]"),
    ],
)
def test_bad_fields_are_named(
    kind: type[TokenizeRequest] | type[DetokenizeRequest], fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(OpenAIError) as caught:
        kind.parse(json.dumps({"model": "m", **fields}).encode())
    assert (caught.value.status, caught.value.param) == (400, param)


def test_errors_of_the_ensemble_have_the_clients_names() -> None:
    with pytest.raises(OpenAIError) as caught:
        sent_inputs(prompt="bad")
    assert (caught.value.param, caught.value.message) == ("prompt", "prompt: the prompt has no tokens")
    with pytest.raises(OpenAIError) as caught:
        detokenized(999)
    assert (caught.value.param, caught.value.message) == ("tokens", "tokens: has token id 999, allowed: 0 to 319")


def test_places_inside_a_field_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(self: FakeEnsemble, model: str, inputs: Any) -> list[int]:
        raise EnsembleError(400, "messages[0].content[1]: is odd")

    monkeypatch.setattr(FakeEnsemble, "tokenize", refuse)
    with pytest.raises(OpenAIError) as caught:
        sent_inputs(messages=MESSAGES)
    assert (caught.value.param, caught.value.message) == ("messages[0].content[1]", "messages[0].content[1]: is odd")


def test_errors_within_the_server_are_not_the_requests() -> None:
    with pytest.raises(EnsembleError, match="secret of the engine"):
        detokenized(500)


def detokenized(*ids: int) -> dict[str, str]:
    request = DetokenizeRequest(model="m", tokens=list(ids))
    return asyncio.run(detokenize(FakeEnsemble(), MODEL, request))  # type: ignore[arg-type]


def test_text_of_tokens() -> None:
    assert detokenized(1, 2) == {"prompt": "text"}
