"""Lengths of prompts and answers as a user writes them: "128", "64-256", "64:0.8,1024:0.2". Runs on the load host."""

from __future__ import annotations

import random
import re
from typing import NamedTuple

_PART = re.compile(r"(\d+)(?:-(\d+))?(?::(\d*\.?\d+))?")


class Span(NamedTuple):
    """Whole numbers from `low` to `high`, all as likely, chosen with `weight`."""

    low: int
    high: int
    weight: float


class Lengths(NamedTuple):
    """A mixture of spans."""

    spans: tuple[Span, ...]

    def draw(self, random_source: random.Random) -> int:
        """One length."""
        span = random_source.choices(self.spans, [span.weight for span in self.spans])[0]
        return random_source.randint(span.low, span.high)


def parse_lengths(text: str) -> Lengths:
    """Spans separated by commas, each LENGTH or LOW-HIGH, with :WEIGHT (1 if left out). Raises ValueError."""
    return Lengths(tuple(_span(part.strip()) for part in text.split(",")))


def _span(text: str) -> Span:
    match = _PART.fullmatch(text)
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    weight = float((match and match[3]) or 1)
    if not 0 < low <= high or weight <= 0:
        raise ValueError(f"expected LENGTH, LOW-HIGH or LENGTH:WEIGHT with numbers above 0, got {text!r}")
    return Span(low, high, weight)
