"""The scripted engine: plays token scripts at a set rate. For tests, and for measuring everything around an engine.

Runs in the engine stage. A request's script is its own prompt: the ids come back one a step, then the end token; they
are repeated up to `max_tokens` while nothing ends them. Tests that need more (faults, ids that no prompt can hold) name
a file of scripts. All running sequences make a token in the same step, as in a real engine that batches in flight; a
step that is late is made up for, so that the rate is the set one.

Log probabilities, where a request asks for them, follow from the id alone. Ids come in rows of seven, 0 to 6, 7 to 13
and so on, each row's first one the likeliest: the n-th of a row (from 0) has -n / 8. The likeliest ids told with a
token are those from the beginning of its row on, with -0 / 8, -1 / 8, ...: it is among them if there are enough.

Benchmarks that ask how long a token is under way name a `trace_file`, for which see token_trace.py.
"""

from __future__ import annotations

import json
import math
import os
import random
import threading
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from pathlib import Path

from .adapter import EngineDiedError, EngineRequest, Load, TokenDelta, TokenLogprob
from .token_trace import TokenTrace

ROW = 7  # ids that have different log probabilities


@dataclass
class Script:
    """What to play for one prompt. `fault` happens instead of step `fault_step`: raise, die, exit or stall."""

    steps: list[list[int]]
    fault: str = ""
    fault_step: int = 0


@dataclass(eq=False)
class Sequence:
    """A running or waiting request."""

    request: EngineRequest
    script: Script | None
    made: int = 0
    step: int = 0
    ready_at_s: float = 0.0
    joined_at_step: int = 0

    def __post_init__(self) -> None:
        request = self.request
        self.cycle = request.prompt_ids + request.end_ids[:1]
        self.ends = set(request.ending_ids)


def token_logprob(token_id: int, top: int) -> TokenLogprob:
    """What is told of a token, with the `top` likeliest."""
    place = token_id % ROW
    return TokenLogprob(-place / 8, tuple((token_id - place + n, -n / 8) for n in range(top)))


class ScriptedAdapter:
    """Plays scripts at `tokens_per_second` for each of up to `max_num_seqs` sequences.

    `first_token_s` delays the first token of each; with probability `jitter` a sequence misses a step.
    """

    def __init__(
        self,
        *,
        tokens_per_second: float,
        max_num_seqs: int,
        first_token_s: float = 0.0,
        jitter: float = 0.0,
        seed: int = 0,
        script_file: str = "",
        trace_file: str = "",
    ) -> None:
        self.streaming_cores = math.inf
        self._rate = tokens_per_second
        self._max_num_seqs = max_num_seqs
        self._first_token_s = first_token_s
        self._jitter = jitter
        self._random = random.Random(seed)
        self._script_file = script_file
        self._trace_file = trace_file
        self._trace: TokenTrace | None = None
        self._scripts: dict[tuple[int, ...], Script] = {}
        self._changed = threading.Condition()
        self._running: OrderedDict[int, Sequence] = OrderedDict()
        self._waiting: deque[Sequence] = deque()
        self._steps_done = 0
        self._started_at_s = 0.0

    def start(self) -> None:
        self._started_at_s = time.monotonic()
        if self._trace_file:
            self._trace = TokenTrace(self._trace_file)
        if self._script_file:
            entries = json.loads(Path(self._script_file).read_text("utf-8"))
            self._scripts = {tuple(entry.pop("prompt_ids")): Script(**entry) for entry in entries}

    def submit(self, request: EngineRequest) -> None:
        sequence = Sequence(request, self._scripts.get(request.prompt_ids))
        with self._changed:
            self._waiting.append(sequence)
            self._fill_slots()
            self._changed.notify()

    def abort(self, key: int) -> None:
        with self._changed:
            self._running.pop(key, None)
            self._waiting = deque(waiting for waiting in self._waiting if waiting.request.key != key)
            self._fill_slots()

    def take(self, timeout_s: float) -> list[TokenDelta]:
        until_s = time.monotonic() + timeout_s
        with self._changed:
            while True:
                deltas = self._play()
                left_s = until_s - time.monotonic()
                if deltas or left_s <= 0:
                    return deltas
                self._changed.wait(min(left_s, self._next_step_s()) if self._running else left_s)

    def load(self) -> Load:
        return Load(len(self._running), len(self._waiting), len(self._running) / self._max_num_seqs)

    def stop(self) -> None:
        with self._changed:
            self._running.clear()
            self._waiting.clear()
            if self._trace:
                self._trace.close()
                self._trace = None

    def _fill_slots(self) -> None:
        while self._waiting and len(self._running) < self._max_num_seqs:
            sequence = self._waiting.popleft()
            if not self._running:
                self._skip_idle_steps()
            sequence.ready_at_s = time.monotonic() + self._first_token_s
            sequence.joined_at_step = self._steps_due(sequence.ready_at_s)
            self._running[sequence.request.key] = sequence

    def _skip_idle_steps(self) -> None:
        """An engine with nothing to do makes no steps; the first request starts a new count."""
        self._started_at_s, self._steps_done = time.monotonic(), 0

    def _next_step_s(self) -> float:
        """Seconds until the next step is due; at least a little, so that the lock is given up."""
        due_at_s = self._started_at_s + (self._steps_done + 1) / self._rate
        return max(due_at_s - time.monotonic(), 1e-5)

    def _steps_due(self, at_s: float) -> int:
        return int((at_s - self._started_at_s) * self._rate)

    def _play(self) -> list[TokenDelta]:
        now_s = time.monotonic()
        steps_due = self._steps_due(now_s)
        if steps_due <= self._steps_done or not self._running:
            return []
        done, self._steps_done = self._steps_done, steps_due
        deltas = [
            self._advance(sequence, steps_due - max(done, sequence.joined_at_step))
            for sequence in list(self._running.values())
            if sequence.ready_at_s <= now_s and not (self._jitter and self._random.random() < self._jitter)
        ]
        for delta in deltas:
            if delta.finish_reason:
                del self._running[delta.key]
        self._fill_slots()
        handed_over = [delta for delta in deltas if delta.ids or delta.finish_reason]
        if self._trace and handed_over:
            self._trace.write(handed_over)
        return handed_over

    def _advance(self, sequence: Sequence, steps: int) -> TokenDelta:
        """Up to `steps` steps of one sequence."""
        script, top = sequence.script, sequence.request.top_logprobs
        delta = self._advance_script(sequence, script, steps) if script else self._advance_prompt(sequence, steps)
        if top is None:
            return delta
        return delta._replace(logprobs=tuple(token_logprob(token_id, top) for token_id in delta.ids))

    def _advance_prompt(self, sequence: Sequence, steps: int) -> TokenDelta:
        cycle, made = sequence.cycle, sequence.made
        count = min(steps, sequence.request.max_tokens - made)
        return self._cut(sequence, [cycle[(made + step) % len(cycle)] for step in range(count)])

    def _advance_script(self, sequence: Sequence, script: Script, steps: int) -> TokenDelta:
        ids: list[int] = []
        for _ in range(steps):
            if script.fault and sequence.step == script.fault_step:
                return self._fail(sequence, script.fault, ids)
            if sequence.step < len(script.steps):
                ids += script.steps[sequence.step]
                sequence.step += 1
        delta = self._cut(sequence, ids)
        is_over = sequence.step == len(script.steps) and not script.fault and not delta.finish_reason
        return delta._replace(finish_reason="stop") if is_over else delta

    def _cut(self, sequence: Sequence, ids: list[int]) -> TokenDelta:
        """New ids up to an end token or the limit."""
        request, made = sequence.request, sequence.made
        for count, token in enumerate(ids, 1):
            if token in sequence.ends and made + count >= request.min_tokens:
                return TokenDelta(request.key, tuple(ids[:count]), "stop")
            if made + count == request.max_tokens:
                return TokenDelta(request.key, tuple(ids[:count]), "length")
        sequence.made += len(ids)
        return TokenDelta(request.key, tuple(ids))

    def _fail(self, sequence: Sequence, fault: str, ids: list[int]) -> TokenDelta:
        if fault == "die":
            raise EngineDiedError("the script told it to")
        if fault == "exit":
            os._exit(9)
        if fault == "raise":
            return TokenDelta(sequence.request.key, tuple(ids), "error", "the engine failed: the script told it to")
        return TokenDelta(sequence.request.key, tuple(ids))  # stall: nothing more, for ever
