"""The body of `POST /v1/completions`: one or more prompts, as text or as token ids."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, WithJsonSchema

from .generation_request import INT32_MAX, GenerationRequest, RequestLimits, TopLogprobs
from .openai_error import OpenAIError, bad_field
from .request_body import got
from .request_fields import Route

Prompt = str | list[int]

_IDS = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
_LISTS = [{"type": "array", "items": items, "minItems": 1} for items in ({"type": "string"}, _IDS)]
PROMPTS = WithJsonSchema({"anyOf": [{"type": "string"}, _IDS, *_LISTS]})


def _prompts(value: Any) -> list[Prompt]:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise _unlike("prompt", value)
    if not value:
        raise bad_field("prompt", "is an empty list")
    if type(value[0]) is int:
        return [_ids("prompt", value)]
    return [_prompt(f"prompt[{index}]", prompt, type(value[0])) for index, prompt in enumerate(value)]


def _prompt(where: str, value: Any, kind: type) -> Prompt:
    if type(value) is not kind:
        raise bad_field(where, f"is not of the same type as prompt[0], got {got(value)}", "invalid_type")
    if isinstance(value, list):
        return _ids(where, value)
    if isinstance(value, str):
        return value
    raise _unlike(where, value)


def _ids(where: str, ids: list[Any]) -> list[int]:
    if not ids:
        raise bad_field(where, "is an empty list")
    for index, token in enumerate(ids):
        if type(token) is not int:
            raise bad_field(f"{where}[{index}]", f"must be a token id, got {got(token)}", "invalid_type")
        if not 0 <= token <= INT32_MAX:
            raise bad_field(f"{where}[{index}]", f"got {got(token)}, allowed: a token id of the model, 0 or more")
    return ids


def _unlike(where: str, value: Any) -> OpenAIError:
    message = f"must be a string, a list of strings, token ids, or a list of lists of token ids, got {got(value)}"
    return bad_field(where, message, "invalid_type")


class CompletionRequest(GenerationRequest):
    """A checked completion request. `prompt` is always the list of its prompts."""

    route: ClassVar[Route] = "completions"

    prompt: Annotated[list[Any], BeforeValidator(_prompts), PROMPTS]
    echo: bool = False
    best_of: int | None = None
    logprobs: TopLogprobs | None = None

    def check(self, limits: RequestLimits) -> None:
        """As for every request; also the number of prompts, `best_of` and `echo`."""
        super().check(limits)
        if len(self.prompt) > limits.prompts:
            raise bad_field("prompt", f"has {len(self.prompt)} prompts, allowed: {limits.prompts}")
        if self.best_of not in (None, self.n):
            raise bad_field("best_of", f"got {self.best_of}, allowed: only the value of n, {self.n}")
        if self.echo and not all(isinstance(prompt, str) for prompt in self.prompt):
            raise bad_field("echo", "is not available for a prompt of token ids")
        if self.echo and self.logprobs is not None:
            raise bad_field("logprobs", "is not available with echo: it would need those of the prompt")

    @property
    def num_choices(self) -> int:
        """Answers to make: `n` for each prompt, those of the first prompt first."""
        return self.n * len(self.prompt)

    @property
    def num_top_logprobs(self) -> int | None:
        """How many of the likeliest tokens to tell with each token's log probability; None to tell nothing."""
        return self.logprobs

    def echoed(self, index: int) -> str:
        """The prompt to put before choice `index`; "" without `echo`."""
        return str(self.prompt[index // self.n]) if self.echo else ""
