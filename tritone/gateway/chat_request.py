"""The body of `POST /v1/chat/completions`. What messages must look like beyond this is the chat template's business."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, WithJsonSchema

from .generation_request import Count, GenerationRequest, RequestLimits, TopLogprobs
from .openai_error import bad_field
from .request_body import got
from .request_fields import Route

_TEXT_PART = {
    "type": "object",
    "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
    "required": ["type", "text"],
}
_CONTENT = {"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "array", "items": _TEXT_PART}]}
_MESSAGE = {
    "type": "object",
    "properties": {"role": {"type": "string"}, "content": _CONTENT},
    "required": ["role"],
    "additionalProperties": True,
}
MESSAGES = WithJsonSchema({"type": "array", "items": _MESSAGE, "minItems": 1})


class ChatRequest(GenerationRequest):
    """A checked chat request."""

    route: ClassVar[Route] = "chat"

    messages: Annotated[list[dict[str, Any]], MESSAGES]
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None
    tools: list[dict[str, Any]] = Field(default=[])
    chat_template_kwargs: dict[str, Any] = Field(default={})
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    safety_identifier: str | None = None
    metadata: dict[str, str] | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_retention: str | None = None
    parallel_tool_calls: bool | None = None

    def check(self, limits: RequestLimits) -> None:
        """As for every request; also that messages are text, and tools are functions."""
        super().check(limits)
        if not self.messages:
            raise bad_field("messages", "is an empty list, needs at least one message")
        for index, message in enumerate(self.messages):
            _check_message(f"messages[{index}]", message)
        for index, tool in enumerate(self.tools):
            _check_tool(f"tools[{index}]", tool)
        if self.continue_final_message and self.add_generation_prompt:
            raise bad_field("continue_final_message", "contradicts add_generation_prompt=true; send one of them")
        if self.top_logprobs and not self.logprobs:
            raise bad_field("top_logprobs", "needs logprobs=true")

    @property
    def num_top_logprobs(self) -> int | None:
        """How many of the likeliest tokens to tell with each token's log probability; None to tell nothing."""
        return self.top_logprobs or 0 if self.logprobs else None


def _check_message(where: str, message: dict[str, Any]) -> None:
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str):
        raise bad_field(f"{where}.role", f'must be a string such as "user", got {got(role)}', "invalid_type")
    if isinstance(content, list):
        for index, part in enumerate(content):
            _check_part(f"{where}.content[{index}]", part)
    elif not isinstance(content, str | None):
        must_be = "must be a string or a list of text parts"
        raise bad_field(f"{where}.content", f"{must_be}, got {got(content)}", "invalid_type")


def _check_part(where: str, part: Any) -> None:
    if not isinstance(part, dict):
        raise bad_field(where, f"must be an object, got {got(part)}", "invalid_type")
    if part.get("type") != "text":
        raise bad_field(where, f"has type {got(part.get('type'))}; this model takes text parts only")
    if not isinstance(part.get("text"), str):
        raise bad_field(f"{where}.text", f"must be a string, got {got(part.get('text'))}", "invalid_type")


def _check_tool(where: str, tool: dict[str, Any]) -> None:
    if tool.get("type") != "function":
        raise bad_field(f"{where}.type", f'got {got(tool.get("type"))}, allowed: "function"')
    function = tool.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise bad_field(f"{where}.function", "must be an object that has a name", "invalid_type")
