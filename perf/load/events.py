"""Reads the events of one streamed answer, by the front they came from, and counts their tokens.

Runs on the load host.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from perf.load.record import APPORTIONED, COUNTED, ONE_EACH, TOKENIZED

CountTokens = Callable[[str], int]
"""The tokens of a text."""


class Event(NamedTuple):
    """What one event says. `total` is the number of the answer's tokens so far, where it is told."""

    text: str = ""
    total: int | None = None
    prompt_tokens: int | None = None
    finish_reason: str | None = None
    error: str | None = None
    is_end: bool = False


class Answer(NamedTuple):
    """Of all events of an answer: the tokens of each, and what the last ones said."""

    tokens: list[int]
    counting: str
    prompt_tokens: int | None
    finish_reason: str | None
    error: str | None
    has_end: bool


def openai_event(data: bytes) -> Event:
    """An event of `/v1/chat/completions` or `/v1/completions`, without its "data: ". Raises ValueError."""
    if data == b"[DONE]":
        return Event(is_end=True)
    said = _object(data)
    if said.get("error"):
        return Event(error=_message(said["error"]))
    usage = said.get("usage") or {}
    choice: dict[str, Any] = next(iter(said.get("choices") or []), {})
    delta = choice.get("delta") or {}
    text = choice.get("text") or "".join(
        delta.get(name) or "" for name in ("reasoning_content", "reasoning", "content")
    )
    return Event(text, usage.get("completion_tokens"), usage.get("prompt_tokens"), choice.get("finish_reason"))


def generate_event(data: bytes) -> Event:
    """An event of Triton's `generate_stream`, without its "data: ". Raises ValueError."""
    return outputs_event(_object(data))


def outputs_event(outputs: Mapping[str, Any]) -> Event:
    """A response of an ensemble in the layout of NVIDIA's, by the names of its outputs. Only ours tells counts."""
    if outputs.get("error"):
        return Event(error=_message(outputs["error"]))
    total, prompt = outputs.get("num_output_tokens"), outputs.get("num_input_tokens")
    return Event(
        text=str(outputs.get("text_output") or ""),
        total=None if total is None else int(total),
        prompt_tokens=None if prompt is None else int(prompt),
        finish_reason=outputs.get("finish_reason") or None,
        is_end="finish_reason" not in outputs and total is None,  # no model but ours says which response is the last
    )


def read_answer(events: Sequence[Event], count_tokens: CountTokens | None) -> Answer:
    """The tokens of each event, by the best of the ways that `perf.load.record` names."""
    tokens, counting = _count(events, count_tokens)
    return Answer(
        tokens,
        counting,
        _last(event.prompt_tokens for event in events),
        _last(event.finish_reason for event in events),
        _last(event.error for event in events),
        any(event.is_end or event.finish_reason for event in events),
    )


def _count(events: Sequence[Event], count_tokens: CountTokens | None) -> tuple[list[int], str]:
    has_text = [bool(event.text) for event in events]
    if all(event.total is not None for event, brings_text in zip(events, has_text, strict=True) if brings_text):
        so_far = list(accumulate((event.total or 0 for event in events), max, initial=0))
        if so_far[-1]:
            return [later - earlier for earlier, later in pairwise(so_far)], COUNTED
    total = _last(event.total for event in events)
    if total is not None:
        return apportion(total, [len(event.text) for event in events]), APPORTIONED
    if count_tokens:
        text = "".join(event.text for event in events)
        return apportion(count_tokens(text), [len(event.text) for event in events]), TOKENIZED
    return [int(brings_text) for brings_text in has_text], ONE_EACH


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """`total` in whole parts by weight, running sums rounded; at least 1 for a weight above 0 while there are enough.

    All of it goes to the last part if there is no weight at all.
    """
    whole = sum(weights)
    if not whole:
        return [*[0] * (len(weights) - 1), total] if weights else []
    parts = sum(weight > 0 for weight in weights)
    each = 1 if total >= parts else 0
    sums = [round((total - each * parts) * weight / whole) for weight in accumulate(weights, initial=0)]
    return [
        later - earlier + (each if weight else 0)
        for (earlier, later), weight in zip(pairwise(sums), weights, strict=True)
    ]


def _object(data: bytes) -> dict[str, Any]:
    said = json.loads(data)
    if not isinstance(said, dict):
        raise ValueError(f"expected an object, got {data[:100]!r}")
    return said


def _message(error: Any) -> str:
    return str(error.get("message") or error) if isinstance(error, dict) else str(error)


def _last(values: Any) -> Any:
    return next((value for value in reversed(list(values)) if value is not None), None)
