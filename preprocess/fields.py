"""The request as the client sent it: each declared input taken out of its tensor into a plain Python value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import InvalidRequest
from .json_text import parse_json

# What other LLM servers call some of our fields.
_NAMES_ELSEWHERE = {
    "prompt": "text_input",
    "stop": "stop_words",
    "echo": "exclude_input_in_output",
    "min_length": "min_tokens",
    "random_seed": "seed",
    "logprobs": "return_log_probs",
    "num_logprobs": "top_logprobs",
    "response_format": "guided_decoding_guide_type",
    "guided_json": "guided_decoding_guide",
    "guided_regex": "guided_decoding_guide",
    "guided_choice": "guided_decoding_guide",
    "guided_grammar": "guided_decoding_guide",
    "lora_task_id": "lora_name",
}


@dataclass(frozen=True, slots=True)
class RequestFields:
    """Every declared input; None where the client did not send it."""

    text_input: str | None = None
    messages: list[Any] | None = None
    input_ids: npt.NDArray[np.int32] | None = None
    tools: list[Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    max_tokens: int | None = None
    min_tokens: int | None = None
    stream: bool | None = None
    stop_words: list[str] | None = None
    bad_words: list[str] | None = None
    stop_token_ids: npt.NDArray[np.int32] | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None
    exclude_input_in_output: bool | None = None
    ignore_eos: bool | None = None
    end_id: int | None = None
    pad_id: int | None = None
    beam_width: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    return_log_probs: bool | None = None
    top_logprobs: int | None = None
    guided_decoding_guide_type: str | None = None
    guided_decoding_guide: str | None = None
    lora_name: str | None = None


def read_fields(tensors: Mapping[str, Any]) -> RequestFields:
    """Read one request's inputs: STRING as a sequence of bytes, numbers as arrays of any shape.

    Raises InvalidRequest for an undeclared input, bytes that are not UTF-8, broken JSON, or several values where one
    is wanted.
    """
    values = {}
    for name, value in tensors.items():
        reader = READERS.get(name)
        if reader is None:
            raise InvalidRequest(name, f"is not an input of this model{did_you_mean(name)}")
        values[name] = reader(name, value)
    return RequestFields(**values)


def did_you_mean(name: str) -> str:
    """A hint that ends a sentence: the declared field nearest to `name`, or nothing."""
    elsewhere = _NAMES_ELSEWHERE.get(name)
    nearest = [elsewhere] if elsewhere else get_close_matches(name, READERS, n=1, cutoff=0.5)
    return f"; did you mean {nearest[0]}?" if nearest else ""


def _scalar(name: str, value: npt.NDArray[Any]) -> Any:
    if value.size != 1:
        raise InvalidRequest(name, f"takes one value, got {value.size}")
    return value.item()


def _ids(_name: str, value: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    return value.reshape(-1)


def _texts(name: str, value: Sequence[bytes]) -> list[str]:
    try:
        return [entry.decode() for entry in value]
    except UnicodeDecodeError as error:
        raise InvalidRequest(name, f"is not UTF-8: byte {error.start} is {error.object[error.start]:#04x}") from None


def _text(name: str, value: Sequence[bytes]) -> str:
    if len(value) != 1:
        raise InvalidRequest(name, f"takes one value, got {len(value)}")
    return _texts(name, value)[0]


def _json_list(name: str, value: Sequence[bytes]) -> Any:
    return parse_json(name, _text(name, value), list)


def _json_object(name: str, value: Sequence[bytes]) -> Any:
    return parse_json(name, _text(name, value), dict)


READERS: dict[str, Callable[[str, Any], Any]] = {
    "text_input": _text,
    "messages": _json_list,
    "input_ids": _ids,
    "tools": _json_list,
    "chat_template_kwargs": _json_object,
    "add_generation_prompt": _scalar,
    "continue_final_message": _scalar,
    "max_tokens": _scalar,
    "min_tokens": _scalar,
    "stream": _scalar,
    "stop_words": _texts,
    "bad_words": _texts,
    "stop_token_ids": _ids,
    "include_stop_str_in_output": _scalar,
    "skip_special_tokens": _scalar,
    "exclude_input_in_output": _scalar,
    "ignore_eos": _scalar,
    "end_id": _scalar,
    "pad_id": _scalar,
    "beam_width": _scalar,
    "temperature": _scalar,
    "top_k": _scalar,
    "top_p": _scalar,
    "min_p": _scalar,
    "repetition_penalty": _scalar,
    "presence_penalty": _scalar,
    "frequency_penalty": _scalar,
    "seed": _scalar,
    "return_log_probs": _scalar,
    "top_logprobs": _scalar,
    "guided_decoding_guide_type": _text,
    "guided_decoding_guide": _text,
    "lora_name": _text,
}
