"""One request after the other, by a client in the engine's own clock: how long each token is under way.

Runs on the load host.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from perf import metrics
from perf.cpu_sampler import CpuSampler
from perf.ensembles import Ensemble
from perf.processes import memory_of, server_processes
from perf.records import Emission, RequestRecord, Window
from perf.runs import MS_PER_NS, Measured, Point, Workload, cpu_figures, flow_figures
from perf.server import RunningServer
from perf.stream_client import StreamClient
from perf.trace import read_trace


def measure_one_stream(
    server: RunningServer, ensemble: Ensemble, point: Point, workload: Workload, trace: Path
) -> Measured:
    """Send as many requests as fill the workload's seconds; the engine writes the file `trace`."""
    processes = server_processes(server.pid, ensemble.model)
    inputs = ensemble.inputs(workload.prompt, workload.tokens)
    count = max(1, round(workload.seconds * point.rate / workload.tokens))
    sampler = CpuSampler({**processes, "client": psutil.Process()}, clock=time.monotonic_ns)
    with StreamClient(server.url, ensemble.model, ensemble.count_tokens) as client, sampler:
        requests = [client.request(inputs) for _ in range(count)]
    window = Window(requests[0].started_ns - 1, requests[-1].received_ns[-1])
    figures = {
        **flow_figures(requests, window, point),
        **added_figures(requests, read_trace(trace)[-count:]),
        **cpu_figures(sampler.samples, window, metrics.tokens_within(requests, window)),
    }
    return Measured(requests, sampler.samples, figures, memory_of(processes))


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
