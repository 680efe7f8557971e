"""A checked request as the inputs of the ensemble, and the ensemble's errors as errors of the request."""

from __future__ import annotations

import json
import re
from typing import Any

from .chat_request import ChatRequest
from .completion_request import CompletionRequest
from .ensemble_client import EnsembleError
from .openai_error import OpenAIError, bad_field, internal_error, model_not_found, too_many_requests, unavailable
from .request_fields import fields_of

Inputs = dict[str, Any]
Request = ChatRequest | CompletionRequest

_AS_JSON = ("messages", "tools", "chat_template_kwargs")
_NOT_COPIED = ("model", "seed", "reasoning_effort", "logprobs", "top_logprobs")
_PUBLIC_STATUSES = (429, 504)
_TOO_LONG = re.compile(r"\(context (\d+)|the prompt has \d+ characters")


def ensemble_inputs(request: Request, lora_name: str | None = None) -> list[Inputs]:
    """The inputs for each choice, in the order of the choices' indexes; every value can be written as JSON.

    `lora_name` is the adapter that the request calls its model.
    """
    common = _common(request) | ({"lora_name": lora_name} if lora_name else {})
    prompts: list[Inputs] = [{}] if isinstance(request, ChatRequest) else [_prompt(prompt) for prompt in request.prompt]
    seeds = [_seed(request.seed, number) for number in range(request.n)]
    return [common | prompt | seed for prompt in prompts for seed in seeds]


def from_ensemble(request: Request, error: EnsembleError, request_id: str, overload_status: int) -> OpenAIError:
    """What the client of `request` is told: its own names for the ensemble's, and nothing of what is internal."""
    if error.is_overload:
        return too_many_requests(overload_status)
    if error.status == 404:
        return model_not_found(request.model)
    if error.status == 503:
        return unavailable()
    if error.status in _PUBLIC_STATUSES:
        return OpenAIError(error.status, error.message)
    if error.status != 400:
        return internal_error(request_id)
    param = error.field and _param(request, error.field)
    return _bad_value(param + error.place, error.reason) if param else OpenAIError(400, error.message)


def _common(request: Request) -> Inputs:
    inputs: Inputs = {"stream": True}
    for field in fields_of(request.route).values():  # what becomes several inputs is made below
        if not field.ensemble or ", " in field.ensemble or field.name in _NOT_COPIED:
            continue
        value = _value(request, field.name)
        if value is not None and value != [] and value != {}:
            inputs[field.ensemble] = json.dumps(value, ensure_ascii=False) if field.name in _AS_JSON else value
    return inputs | _logprobs(request) | _guide(request)


def _value(request: Request, name: str) -> Any:
    value = getattr(request, name)
    if name in ("stop", "bad_words"):
        return [word for word in value if word]
    if name == "messages":
        return [_message(message) for message in value]
    if name == "chat_template_kwargs":
        return _template_kwargs(value, request)
    return value


def _template_kwargs(kwargs: dict[str, Any], request: Request) -> dict[str, Any]:
    effort = getattr(request, "reasoning_effort", None)
    return kwargs if effort is None else {"reasoning_effort": effort, **kwargs}


def _message(message: dict[str, Any]) -> dict[str, Any]:
    """OpenAI's newer role for the system's message, which hardly any template knows, becomes the old one."""
    return {**message, "role": "system"} if message["role"] == "developer" else message


def _logprobs(request: Request) -> Inputs:
    count = request.num_top_logprobs
    return {} if count is None else {"return_log_probs": True, "top_logprobs": count}


def _guide(request: Request) -> Inputs:
    guide = request.guide
    if guide is None:
        return {}
    text = {"guided_decoding_guide": guide.text} if guide.text else {}
    return {"guided_decoding_guide_type": guide.type, **text}


def _prompt(prompt: str | list[int]) -> Inputs:
    return {"text_input": prompt} if isinstance(prompt, str) else {"input_ids": prompt}


def _seed(seed: int | None, number: int) -> Inputs:
    """Different for the answers to one prompt, and the same whether a prompt comes alone or with others."""
    return {} if seed is None else {"seed": (seed + number) % 2**64}


def _param(request: Request, name: str) -> str | None:
    """The field of the request that became the input `name`: the last of several that was sent."""
    fields = [field.name for field in fields_of(request.route).values() if name in field.ensemble.split(", ")]
    sent = [field for field in fields if field in request.model_fields_set]
    candidates = sent or fields
    return candidates[-1] if candidates else None


def _bad_value(param: str, message: str) -> OpenAIError:
    too_long = _TOO_LONG.search(message)
    error = bad_field(param, message, "context_length_exceeded" if too_long else "invalid_value")
    if too_long and too_long[1]:  # the words by which client libraries recognize it
        error.message = f"This model's maximum context length is {too_long[1]} tokens. {error.message}"
    return error
