"""The load of a soak, and the samples taken meanwhile. Runs on the server's host.

Memory of the client itself stays flat, too: what has ended is written, and only counted.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

from perf.load.client import Client, connected
from perf.load.fronts import Target
from perf.load.metrics import e2e_ns, is_answered
from perf.load.record import COUNTED, LoadRecord, now_ns
from perf.load.request import LoadRequest
from perf.metrics import NS_PER_S
from perf.results import ResultFolder
from perf.soak.verdict import Sample
from perf.soak.watch import flat, held, live_streams, run_dirs
from tritone.errors import TritoneError

ANSWERED, LEFT, REFUSED, FAILED = "answered", "left", "refused", "failed"
"""What becomes of a request: its whole answer; the client left; refused as it had to be; anything else."""

FIRST_LEAVE_S = 1.0  # until it is known how long answers take
REPORT_S = 60.0
DRAIN_S = 30.0
BAD_MAX_TOKENS = -1
DETAIL = 80  # characters of an error that tell it from others


@dataclass(frozen=True)
class SoakPlan:
    """The load: `streams` at once, of which each request goes to one of the targets; shares are of requests."""

    targets: Mapping[str, Target]
    streams: int
    seconds: float
    interval_s: float
    cancel_share: float
    bad_share: float
    requests: Callable[[random.Random], Iterator[LoadRequest]]
    seed: int
    pids: Sequence[int]
    model: str


class Soaked(NamedTuple):
    """What came of it: outcomes, failures by kind, samples, streams left at the end, whether it was stopped before."""

    outcomes: Counter[str]
    errors: Counter[str]
    samples: list[Sample]
    streams_left: int | None
    is_stopped: bool


def soak(
    plan: SoakPlan,
    earlier: Sequence[Sample],
    outcomes: Counter[str],
    errors: Counter[str],
    results: ResultFolder,
    report: Callable[[str], None],
) -> Soaked:
    """Go on from the samples and counts of `earlier` segments, to the end or until SIGINT or SIGTERM."""
    return asyncio.run(_Soak(plan, earlier, outcomes, errors, results, report).run())


class _Soak:
    def __init__(
        self,
        plan: SoakPlan,
        earlier: Sequence[Sample],
        outcomes: Counter[str],
        errors: Counter[str],
        results: ResultFolder,
        report: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._samples = list(earlier)
        self._segment = earlier[-1].segment + 1 if earlier else 0
        self._before_s = earlier[-1].at_s if earlier else 0.0
        self._outcomes, self._errors = outcomes, errors
        self._results = results
        self._report = report
        self._random = random.Random(f"{plan.seed} {self._segment}")
        self._requests = plan.requests(self._random)
        self._stopped = asyncio.Event()
        self._answer_s = FIRST_LEAVE_S

    async def run(self) -> Soaked:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stopped.set)
        self._started_s = time.monotonic()
        folders = run_dirs(self._plan.pids, self._plan.model)
        async with AsyncExitStack() as stack:
            clients = {
                front: await stack.enter_async_context(connected(front, target, None))
                for front, target in self._plan.targets.items()
            }
            sampler = asyncio.create_task(self._watch())
            streams = [asyncio.create_task(self._stream(clients)) for _ in range(self._plan.streams)]
            await asyncio.wait([sampler, *streams], return_when=asyncio.FIRST_EXCEPTION)
            if sampler.done() and sampler.exception():  # the server is gone
                for task in streams:
                    task.cancel()
            await asyncio.gather(sampler, *streams)
        left = live_streams(folders)
        deadline_s = time.monotonic() + DRAIN_S
        while left and time.monotonic() < deadline_s:
            await asyncio.sleep(0.2)
            left = live_streams(folders)
        return Soaked(self._outcomes, self._errors, self._samples, left, self._stopped.is_set())

    def _elapsed_s(self) -> float:
        return self._before_s + time.monotonic() - self._started_s

    def _is_over(self) -> bool:
        return self._stopped.is_set() or self._elapsed_s() >= self._plan.seconds

    async def _watch(self) -> None:
        next_report_s = time.monotonic() + REPORT_S
        while True:
            at_s = self._elapsed_s()
            values = await asyncio.to_thread(lambda: flat(held(self._plan.pids, self._plan.model)))
            sample = Sample(self._segment, at_s, values)
            self._samples.append(sample)
            self._results.add_rows("samples.jsonl", [row_of(sample)])
            if time.monotonic() >= next_report_s:
                next_report_s += REPORT_S
                self._report(f"{at_s / 60:,.0f} of {self._plan.seconds / 60:,.0f} min: {said(self._outcomes)}")
            if self._is_over():
                return
            try:
                await asyncio.wait_for(self._stopped.wait(), min(self._plan.interval_s, self._left_s()))
            except asyncio.TimeoutError:
                continue

    def _left_s(self) -> float:
        return max(0.0, self._plan.seconds - self._elapsed_s())

    async def _stream(self, clients: Mapping[str, Client]) -> None:
        while not self._is_over():
            front = self._random.choice(list(clients))
            share = self._random.random()
            is_bad = share < self._plan.bad_share
            leaves = not is_bad and share < self._plan.bad_share + self._plan.cancel_share
            request = next(self._requests)
            if is_bad:
                request = request._replace(max_tokens=BAD_MAX_TOKENS)
            leave_after_s = self._random.uniform(0, self._answer_s) if leaves else None
            record = await _send(clients[front], request, leave_after_s)
            outcome = outcome_of(record, is_bad)
            if outcome == ANSWERED:
                self._answer_s += (e2e_ns(record) / NS_PER_S - self._answer_s) / 10
            self._outcomes[outcome] += 1
            if outcome == FAILED:
                self._errors[error_of(record, is_bad)] += 1
            self._results.add_requests({"segment": self._segment, "front": front, "outcome": outcome}, [record])


async def _send(client: Client, request: LoadRequest, leave_after_s: float | None) -> LoadRecord:
    if leave_after_s is None:
        return await client.send(request, None)
    sent_ns = now_ns()
    try:
        return await asyncio.wait_for(client.send(request, None), leave_after_s)
    except asyncio.TimeoutError:
        return LoadRecord(sent_ns, sent_ns, (), (), now_ns(), None, COUNTED, error=LEFT)


def outcome_of(record: LoadRecord, is_bad: bool) -> str:
    """One of ANSWERED, LEFT, REFUSED, FAILED. A bad request must be refused by a status of 4xx, or a gRPC error."""
    if is_bad:
        is_refused = record.error == "refused" and not (record.detail or "").startswith("HTTP 5")
        return REFUSED if is_refused else FAILED
    if record.error == LEFT:
        return LEFT
    return ANSWERED if is_answered(record) else FAILED


def error_of(record: LoadRecord, is_bad: bool) -> str:
    """The kind of a failure, without what differs from one to the next."""
    kind = f"{record.error or 'no token'}: {record.detail or ''}"[:DETAIL]
    return f"a bad request was not refused ({kind if record.error else 'answered'})" if is_bad else kind


def said(outcomes: Mapping[str, int]) -> str:
    """Counts in words."""
    return ", ".join(f"{outcomes.get(name, 0):,} {name}" for name in (ANSWERED, LEFT, REFUSED, FAILED))


def row_of(sample: Sample) -> dict[str, Any]:
    """A line of samples.jsonl."""
    values = [[*key, value] for key, value in sample.values.items()]
    return {"segment": sample.segment, "at_s": sample.at_s, "values": values}


def sample_of(row: Mapping[str, Any]) -> Sample:
    """A sample out of its line. Raises TritoneError."""
    try:
        values = {(process, measure): value for process, measure, value in row["values"]}
        return Sample(row["segment"], row["at_s"], values)
    except (KeyError, ValueError, TypeError) as error:
        raise TritoneError(f"a line of samples.jsonl cannot be read: {error}") from error
