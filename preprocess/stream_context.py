"""The JSON text that travels through the engine untouched and tells the postprocess stage how to answer."""

from __future__ import annotations

import json

from .errors import InvalidRequest
from .fields import RequestFields

_ENCODER = json.JSONEncoder(separators=(",", ":"))


def is_echo(fields: RequestFields, is_stream: bool) -> bool:
    """Whether the answer starts with the prompt. Raises InvalidRequest where that is asked of a stream."""
    wants_echo = fields.exclude_input_in_output is False
    if wants_echo and is_stream:
        raise InvalidRequest("exclude_input_in_output", "false (echo the prompt) needs stream=false")
    return wants_echo


def stream_context(
    fields: RequestFields,
    *,
    stop: list[str],
    is_stream: bool,
    has_logprobs: bool,
    end_ids: tuple[int, ...],
    min_tokens: int,
    num_input_tokens: int,
    echo_text: str = "",
    echo_ids: list[int] | None = None,
) -> str:
    """ASCII JSON. `stop`: stop strings; `echo_text` or `echo_ids`: what to put before the answer, if anything."""
    context = {
        "stop": stop,
        "include_stop": bool(fields.include_stop_str_in_output),
        "skip_special": fields.skip_special_tokens is not False,
        "stream": is_stream,
        "logprobs": has_logprobs,
        "end_ids": end_ids,
        "min_tokens": min_tokens,
        "num_input_tokens": num_input_tokens,
        "echo_text": echo_text,
        "echo_ids": echo_ids or [],
    }
    return _ENCODER.encode(context)
