"""Sampling values: what each may be, and what the engine gets where the client says nothing.

Temperatures below 0.00001 mean greedy and reach the engine as 0; `top_k` -1 means off and reaches it as 0.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict, TypeVar

from .errors import InvalidRequest
from .fields import RequestFields

GREEDY_BELOW = 1e-5

_Number = TypeVar("_Number", int, float)

# Every test is written so that NaN fails it.
_ALLOWED: dict[str, tuple[Callable[[float], bool], str]] = {
    "temperature": (lambda value: 0 <= value < math.inf, "a finite number, 0 (greedy) or more"),
    "top_k": (lambda value: -1 <= value < math.inf, "0 or -1 (off), or 1 and more"),
    "top_p": (lambda value: 0 < value <= 1, "more than 0, up to 1"),
    "min_p": (lambda value: 0 <= value <= 1, "0 to 1"),
    "repetition_penalty": (lambda value: 0 < value < math.inf, "a finite number, more than 0"),
    "presence_penalty": (lambda value: -2 <= value <= 2, "-2 to 2"),
    "frequency_penalty": (lambda value: -2 <= value <= 2, "-2 to 2"),
    "seed": (lambda value: 0 <= value < 2**64, f"0 to {2**64 - 1}"),
    "beam_width": (lambda value: value == 1, "1 (beam search is not offered)"),
}


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    """Values for what a client leaves out; as they stand here they change nothing about the model's distribution."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0


class Sampling(TypedDict):
    """Resolved: temperature 0 is greedy, top_k 0 is off; seed is always set, so that an answer can be repeated."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    seed: int


def check_value(name: str, value: float) -> None:
    """Raise InvalidRequest if `value` is not allowed for the field `name`."""
    is_allowed, allowed = _ALLOWED[name]
    if not is_allowed(value):
        raise InvalidRequest(name, f"got {value}, allowed: {allowed}")


def resolve_sampling(fields: RequestFields, defaults: SamplingDefaults) -> Sampling:
    """Check what the client sent and fill in the rest. Raises InvalidRequest."""
    for name in _ALLOWED:
        value = getattr(fields, name)
        if value is not None:
            check_value(name, value)
    temperature = _or(fields.temperature, defaults.temperature)
    return Sampling(
        temperature=temperature if temperature >= GREEDY_BELOW else 0.0,
        top_k=max(0, _or(fields.top_k, defaults.top_k)),
        top_p=_or(fields.top_p, defaults.top_p),
        min_p=_or(fields.min_p, defaults.min_p),
        repetition_penalty=_or(fields.repetition_penalty, defaults.repetition_penalty),
        presence_penalty=_or(fields.presence_penalty, 0.0),
        frequency_penalty=_or(fields.frequency_penalty, 0.0),
        seed=random.getrandbits(64) if fields.seed is None else fields.seed,
    )


def _or(value: _Number | None, default: _Number) -> _Number:
    return default if value is None else value
