"""Many streams at once, by perf_analyzer: each sends its next request when the last one has ended.

Runs on the load host.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

from perf import metrics
from perf.analyzer import Load, run_load
from perf.cpu_sampler import CpuSampler
from perf.ensembles import Ensemble
from perf.processes import memory_of, server_processes
from perf.prompts import spread_lengths
from perf.runs import Measured, Point, Workload, cpu_figures, flow_figures
from perf.server import RunningServer

LENGTHS = 101  # different answer lengths; a prime, so that no stream meets the same ones again and again
SLOWEST = 30  # how many times slower than the engine a side may be before the run is given up
GRACE_S = 120.0


def measure_streams(
    server: RunningServer, ensemble: Ensemble, point: Point, workload: Workload, folder: Path
) -> Measured:
    """Put the load on the server; `folder` is for perf_analyzer's files."""
    load = closed_loop(ensemble, point, workload)
    processes = server_processes(server.pid, ensemble.model)
    with CpuSampler(processes) as sampler:
        requests = run_load(server.url, ensemble.model, load, ensemble.count_tokens, sampler, folder)
    window = metrics.steady_window(requests, point.streams)
    figures = {
        **flow_figures(requests, window, point),
        **cpu_figures(sampler.samples, window, metrics.tokens_within(requests, window)),
    }
    return Measured(requests, sampler.samples, figures, memory_of(processes))


def closed_loop(ensemble: Ensemble, point: Point, workload: Workload) -> Load:
    """A load whose steady window is about the workload's seconds long, if the engine's rate is delivered."""
    lengths = spread_lengths(workload.tokens, LENGTHS, random.Random(workload.seed))
    inputs = [ensemble.inputs(workload.prompt, length) for length in lengths]
    in_window = math.ceil(workload.seconds * point.streams * point.rate / workload.tokens)
    return Load(point.streams, in_window + point.streams, inputs, workload.seconds * SLOWEST + GRACE_S)
