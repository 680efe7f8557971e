"""What `preprocess` tells the far end about one request. Runs in Triton's Python backend.

The engine stage passes it through, unread, with a stream's first chunk.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StreamContext:
    """`stop` holds stop strings (an empty one means none), `end_ids` the ids that end an answer and are no text.

    No stop string counts that begins within the first `min_tokens` ids. `is_stream` false asks for one answer at the
    end, `has_logprobs` true for each token's log probability. `echo_text` or `echo_ids` is the prompt, to be repeated
    in front.
    """

    stop: tuple[str, ...] = ()
    include_stop: bool = False
    skip_special: bool = True
    is_stream: bool = True
    has_logprobs: bool = False
    end_ids: frozenset[int] = frozenset()
    min_tokens: int = 0
    num_input_tokens: int = 0
    echo_text: str = ""
    echo_ids: tuple[int, ...] = ()

    @classmethod
    def parse(cls, json_text: str) -> StreamContext:
        """Reads the JSON object of the contract; every field is required. Raises ValueError naming a bad field."""
        fields = _object(json_text)
        for name, (is_valid, allowed) in _FIELDS.items():
            if name not in fields:
                raise ValueError(f"stream_context.{name} is missing; it must be {allowed}")
            if not is_valid(fields[name]):
                raise ValueError(f"stream_context.{name} must be {allowed}, got {fields[name]!r}")
        return cls(
            stop=tuple(fields["stop"]),
            include_stop=fields["include_stop"],
            skip_special=fields["skip_special"],
            is_stream=fields["stream"],
            has_logprobs=fields["logprobs"],
            end_ids=frozenset(fields["end_ids"]),
            min_tokens=fields["min_tokens"],
            num_input_tokens=fields["num_input_tokens"],
            echo_text=fields["echo_text"],
            echo_ids=tuple(fields["echo_ids"]),
        )


def _object(json_text: str) -> dict[str, Any]:
    try:
        fields = json.loads(json_text)
    except ValueError as error:
        raise ValueError(f"stream_context must be a JSON object: {error}") from error
    if not isinstance(fields, dict):
        raise ValueError(f"stream_context must be a JSON object, got {type(fields).__name__}")
    if unknown := fields.keys() - _FIELDS.keys():
        raise ValueError(f"stream_context.{min(unknown)} is not known; known are {', '.join(_FIELDS)}")
    return fields


def _is_bool(value: object) -> bool:
    return type(value) is bool


def _is_text(value: object) -> bool:
    return type(value) is str


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_list_of(item_type: type) -> Callable[[object], bool]:
    return lambda value: type(value) is list and all(type(item) is item_type for item in value)


_FIELDS: dict[str, tuple[Callable[[object], bool], str]] = {
    "stop": (_is_list_of(str), "a list of strings"),
    "include_stop": (_is_bool, "true or false"),
    "skip_special": (_is_bool, "true or false"),
    "stream": (_is_bool, "true or false"),
    "logprobs": (_is_bool, "true or false"),
    "end_ids": (_is_list_of(int), "a list of integers"),
    "min_tokens": (_is_count, "an integer from 0 on"),
    "num_input_tokens": (_is_count, "an integer from 0 on"),
    "echo_text": (_is_text, "a string"),
    "echo_ids": (_is_list_of(int), "a list of integers"),
}
