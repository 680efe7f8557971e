"""One request after the other, by perf_analyzer, next to the engine's trace: how long each token is under way.

Runs on the load host, which must be the server's: both clocks are those of one machine.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from perf import metrics
from perf.analyzer import Load, run_load
from perf.closed_loop import GRACE_S, SLOWEST
from perf.cpu_sampler import CpuSampler
from perf.ensembles import Ensemble
from perf.processes import memory_of, server_processes
from perf.records import Emission, RequestRecord, Window
from perf.runs import MS_PER_NS, Measured, Point, Workload, cpu_figures, flow_figures
from perf.server import RunningServer
from perf.trace import read_trace


def measure_one_stream(
    server: RunningServer, ensemble: Ensemble, point: Point, workload: Workload, trace: Path
) -> Measured:
    """Send as many requests as fill the workload's seconds; the engine writes the file `trace`."""
    processes = server_processes(server.pid, ensemble.model)
    count = max(1, round(workload.seconds * point.rate / workload.tokens))
    inputs = ensemble.inputs(workload.prompt, workload.tokens)
    load = Load(1, count, [inputs], workload.seconds * SLOWEST + GRACE_S)
    with CpuSampler(processes) as sampler:
        requests = run_load(server.url, ensemble.model, load, ensemble.count_tokens, sampler, trace.parent)
    window = Window(requests[0].started_ns - 1, requests[-1].received_ns[-1])
    figures = {
        **flow_figures(requests, window, point),
        **added_figures(requests, in_system_time(read_trace(trace)[-count:])),
        **cpu_figures(sampler.samples, window, metrics.tokens_within(requests, window)),
    }
    return Measured(requests, sampler.samples, figures, memory_of(processes))


def in_system_time(emissions: Sequence[Sequence[Emission]]) -> list[list[Emission]]:
    """Emissions of the monotonic clock, as the system clock has them."""
    ahead_ns = time.time_ns() - time.monotonic_ns()
    return [[emission._replace(time_ns=emission.time_ns + ahead_ns) for emission in emitted] for emitted in emissions]


def added_figures(requests: Sequence[RequestRecord], emissions: Sequence[Sequence[Emission]]) -> dict[str, float]:
    """Milliseconds from the engine's having a token to the client's having it."""
    added = [
        time_ns
        for request, emitted in zip(requests, emissions, strict=True)
        for time_ns in metrics.added_ns(emitted, request)
    ]
    return {
        "added_p50_ms": metrics.percentile(added, 50) * MS_PER_NS,
        "added_p99_ms": metrics.percentile(added, 99) * MS_PER_NS,
    }
