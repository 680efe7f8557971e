"""What a load test asks for. Runs on the load host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Prompt = str | Sequence[int]
"""Text, or token ids."""


class LoadRequest(NamedTuple):
    """One request: its prompt, the length of its answer, and in a trace when it is due, in seconds from the start."""

    prompt: Prompt
    max_tokens: int
    due_s: float | None = None
