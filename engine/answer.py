"""One answer in the making: which ids must not come next, and when it is over. Runs in the engine stage.

For an engine that leaves the choice of tokens to us.
"""

from __future__ import annotations

import random

from .adapter import EngineRequest


class Answer:
    """A request, and the ids of its prompt and of its answer so far, in `ids`.

    `is_plain` says that the request neither bans tokens nor punishes them.
    """

    def __init__(self, request: EngineRequest) -> None:
        self.request = request
        self.ids = list(request.prompt_ids)
        self.is_plain = not (
            request.min_tokens
            or request.bad_sequences
            or request.repetition_penalty != 1
            or request.presence_penalty
            or request.frequency_penalty
        )
        self._dice = random.Random(request.seed)
        self._ends = set(request.ending_ids)
        self._stops = [stop for stop in request.stop_sequences if len(stop) > 1]
        self._bad = [(sequence[:-1], sequence[-1]) for sequence in request.bad_sequences]

    @property
    def made(self) -> int:
        """Ids of the answer so far."""
        return len(self.ids) - len(self.request.prompt_ids)

    @property
    def made_ids(self) -> list[int]:
        """The answer so far."""
        return self.ids[len(self.request.prompt_ids) :]

    def draw(self) -> float:
        """A number from 0 to below 1 to choose the next id by. Equal seeds give equal numbers, one after the other."""
        return self._dice.random()

    def banned_ids(self) -> set[int]:
        """Ids that end the answer, before `min_tokens`; the last id of a bad sequence, after the others.

        The prompt counts as the beginning of a bad sequence.
        """
        banned = {last for others, last in self._bad if self._ends_with(others)}
        return banned | self._ends if self.made < self.request.min_tokens else banned

    def finish_reason(self) -> str:
        """Why the answer is over: stop or length; "" while it is not. It has one id at least.

        A stop sequence counts when it begins after the first `min_tokens` ids of the answer.
        """
        countable = self.made - self.request.min_tokens
        is_stopped = any(len(stop) <= countable and self._ends_with(stop) for stop in self._stops)
        if is_stopped or self.ids[-1] in self._ends:
            return "stop"
        return "length" if self.made == self.request.max_tokens else ""

    def _ends_with(self, sequence: tuple[int, ...]) -> bool:
        return tuple(self.ids[len(self.ids) - len(sequence) :]) == sequence
