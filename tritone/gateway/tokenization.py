"""`/tokenize` and `/detokenize`, in vLLM's shapes. Runs in the gateway; the preprocess stage does the work."""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError

from tritone.gateway.ensemble_client import EnsembleClient, EnsembleError, ModelInfo
from tritone.gateway.generation_request import TokenId
from tritone.gateway.openai_error import OpenAIError, bad_field
from tritone.gateway.request_body import invalid, read_values
from tritone.gateway.strict_model import StrictModel

Model = TypeVar("Model", bound=StrictModel)

NAMES = {"text_input": "prompt", "input_ids": "tokens"}


class TokenizeRequest(StrictModel):
    """A prompt, or messages to be rendered to one."""

    model: Annotated[str, Field(min_length=1)]
    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None

    @classmethod
    def parse(cls, body: bytes) -> TokenizeRequest:
        """The request in a body. Raises OpenAIError (400)."""
        request = _parse(cls, body)
        if (request.prompt is None) == (request.messages is None):
            raise bad_field("prompt", "send exactly one of prompt and messages")
        return request


class DetokenizeRequest(StrictModel):
    """Token ids."""

    model: Annotated[str, Field(min_length=1)]
    tokens: Annotated[list[TokenId], Field(min_length=1)]

    @classmethod
    def parse(cls, body: bytes) -> DetokenizeRequest:
        """The request in a body. Raises OpenAIError (400)."""
        return _parse(cls, body)


async def tokenize(client: EnsembleClient, model: ModelInfo, request: TokenizeRequest) -> dict[str, Any]:
    """The reply to `/tokenize`. Raises OpenAIError (400), or EnsembleError for what is not the request's fault."""
    given = request.model_dump(exclude={"model"}, exclude_none=True)
    as_json = ("messages", "tools", "chat_template_kwargs")
    inputs = {name: json.dumps(value) if name in as_json else value for name, value in given.items()}
    if "prompt" in inputs:
        inputs["text_input"] = inputs.pop("prompt")
    try:
        ids = await client.tokenize(model.triton_name, inputs)
    except EnsembleError as error:
        raise _public(error) from None
    return {"count": len(ids), "max_model_len": model.max_model_len, "tokens": ids, "token_strs": None}


async def detokenize(client: EnsembleClient, model: ModelInfo, request: DetokenizeRequest) -> dict[str, str]:
    """The reply to `/detokenize`. Raises OpenAIError (400), or EnsembleError for what is not the request's fault."""
    try:
        return {"prompt": await client.detokenize(model.triton_name, request.tokens)}
    except EnsembleError as error:
        raise _public(error) from None


def _parse(model: type[Model], body: bytes) -> Model:
    try:
        return model.model_validate(read_values(body))
    except ValidationError as error:
        raise invalid(error) from None


def _public(error: EnsembleError) -> OpenAIError | EnsembleError:
    if error.status != 400:
        return error
    if error.field is None:
        return OpenAIError(400, error.message)
    return bad_field(NAMES.get(error.field, error.field) + error.place, error.reason)
