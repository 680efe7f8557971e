"""`python -m perf load`: puts a load on any endpoint, point by point, and keeps what came of it.

Runs on the load host.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from perf.gpu import GpuWatch
from perf.load.arrivals import arrival_times_s
from perf.load.client import Client, connected
from perf.load.events import CountTokens
from perf.load.figures import Point, figures_of, warnings_of
from perf.load.fronts import Target
from perf.load.loops import ClientLoad, LagMeter, Limit, closed_loop, open_loop
from perf.load.record import LoadRecord
from perf.load.report import NOTES, load_plots, load_tables
from perf.load.request import LoadRequest
from perf.load.server_watch import ServerWatch
from perf.results import Page, ResultFolder
from tritone.errors import TritoneError

REPORT_S = 5.0

Report = Callable[[str], None]


@dataclass(frozen=True)
class LoadPlan:
    """All of a load test but its target: the points in their order, and what each has in common.

    `requests` makes the requests of a point from a random source; `trace` holds those of a trace instead.
    """

    front: str
    points: Sequence[Point]
    limit: Callable[[Point], Limit]
    warm_up: int
    requests: Callable[[random.Random], Iterator[LoadRequest]]
    trace: Sequence[LoadRequest]
    arrivals: str
    burstiness: float
    slo_ms: Mapping[str, float]
    seed: int
    count_tokens: CountTokens | None
    server_pids: Sequence[int]
    metrics_url: str | None


class Measured(NamedTuple):
    """A point, its records, its figures and what makes them doubtful."""

    point: Point
    records: Sequence[LoadRecord]
    figures: dict[str, Any]
    warnings: list[str]


def run_load(target: Target, plan: LoadPlan, results: ResultFolder, report: Report) -> list[Measured]:
    """Measure every point and keep it; tables and pages are written at the end. Raises TritoneError."""
    measured = []
    for place, point in enumerate(plan.points, start=1):
        report(f"point {place} of {len(plan.points)}: {point.title}")
        found = measure(target, plan, point, results, report)
        measured.append(found)
        report(summary_line(found))
        for warning in found.warnings:
            report(f"  warning: {warning}")
    summary = {
        "target": {"front": plan.front, "url": target.url, "model": target.model},
        "slo_ms": dict(plan.slo_ms),
        "points": [{**one.point._asdict(), **one.figures, "warnings": one.warnings} for one in measured],
    }
    sides = {target.model: [(one.point, one.records, one.figures) for one in measured]}
    page = Page(
        load_plots(sides, plan.slo_ms),
        [f"{one.point.title}: {warning}" for one in measured for warning in one.warnings],
        NOTES,
    )
    results.finish(summary, load_tables(sides, plan.slo_ms), report, page)
    return measured


def measure(target: Target, plan: LoadPlan, point: Point, results: ResultFolder, report: Report) -> Measured:
    """One point: warm-up, then the load; raw samples go to `results`."""
    with ServerWatch(plan.server_pids, plan.metrics_url, target.model) as server, GpuWatch() as gpu:
        records, client = asyncio.run(_load(target, plan, point, report))
    name = point._asdict()
    records.sort(key=lambda record: record.due_ns)
    results.add_requests(name, records)
    results.add_cpu_samples(name, server.cpu_samples)
    figures = {**figures_of(point, records, plan.slo_ms, client), **server.figures, **gpu.figures}
    return Measured(point, records, figures, warnings_of(figures))


async def _load(target: Target, plan: LoadPlan, point: Point, report: Report) -> tuple[list[LoadRecord], ClientLoad]:
    random_source = random.Random(f"{plan.seed} {point.kind} {point.value}")
    requests = plan.requests(random_source) if not plan.trace else iter(plan.trace)
    async with connected(plan.front, target, plan.count_tokens) as client:
        if plan.warm_up:
            await warm_up(client, plan, random.Random(f"{plan.seed} warm-up {point.value}"))
        limit = plan.limit(point)
        tell = Progress(report, limit.requests or len(plan.trace) or None)
        async with LagMeter() as meter:
            if point.kind == "concurrency":
                records = await closed_loop(client, requests, int(point.value), limit, tell)
            else:
                times_s = arrival_times_s(plan.arrivals, point.value, plan.burstiness, random_source)
                records = await open_loop(client, requests, times_s, limit, tell)
    if not records:
        raise TritoneError(f"{point.title}: no request was due before the end")
    return records, meter.found


async def warm_up(client: Client, plan: LoadPlan, random_source: random.Random) -> None:
    """Requests whose figures are not kept, all at once. Raises TritoneError if every one of them fails."""
    source = plan.requests(random_source) if not plan.trace else iter(plan.trace)
    first = [request for request, _ in zip(source, range(plan.warm_up), strict=False)]
    records = await asyncio.gather(*(client.send(request, None) for request in first))
    failed = [record for record in records if record.error]
    if failed and len(failed) == len(records):
        raise TritoneError(f"every request of the warm-up failed, the first: {failed[0].error}: {failed[0].detail}")


class Progress:
    """Reports now and then how far a long point is."""

    def __init__(self, report: Report, total: int | None) -> None:
        self._report = report
        self._total = total
        self._next_s = time.monotonic() + REPORT_S

    def __call__(self, ended: int) -> None:
        """So many requests have ended."""
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + REPORT_S
            self._report(f"  {ended}{f' of {self._total}' if self._total else ''} requests ended")


def summary_line(found: Measured) -> str:
    """What a point gave, in one line."""
    figures = found.figures
    parts = [f"{figures['output_tokens_per_s']:,.1f} tokens/s", f"{figures['requests_per_s']:.2f} requests/s"]
    if figures["ttft_p50_ms"] is not None:
        parts += [f"TTFT P50 {figures['ttft_p50_ms']:.0f} ms", f"E2E P99 {figures['e2e_p99_ms']:.0f} ms"]
    if figures["goodput_requests_per_s"] is not None:
        parts.append(f"goodput {figures['goodput_requests_per_s']:.2f} requests/s")
    return f"  {found.point.title}: {', '.join(parts)}"
