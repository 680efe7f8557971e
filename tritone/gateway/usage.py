"""Counts the tokens of one request, over all its choices, as the ensemble reports them."""

from __future__ import annotations

from .ensemble_client import Event


class UsageCount:
    """A prompt counts once, however many answers it gets, as with OpenAI; every token made counts."""

    def __init__(self, answers_per_prompt: int) -> None:
        self._answers_per_prompt = answers_per_prompt
        self._sent: dict[int, int] = {}
        self._made: dict[int, int] = {}

    def add(self, index: int, event: Event) -> None:
        """Take over the counts of choice `index`, which are totals so far."""
        self._made[index] = event.num_output_tokens
        if event.num_input_tokens is not None:
            self._sent[index // self._answers_per_prompt] = event.num_input_tokens

    def body(self) -> dict[str, int]:
        """OpenAI's usage object."""
        sent, made = sum(self._sent.values()), sum(self._made.values())
        return {"prompt_tokens": sent, "completion_tokens": made, "total_tokens": sent + made}
