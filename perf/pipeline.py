"""`python -m perf pipeline`: what the ensemble around an engine costs, ours alone or next to NVIDIA's.

Runs on the load host. Every run has a fresh server, the sides take turns within a round, and only one of them is
there at a time.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from perf.against import NvidiaEnsemble
from perf.analyzer import Load, run_load
from perf.closed_loop import GRACE_S, measure_streams
from perf.cpu_sampler import CpuSampler
from perf.ensembles import Ensemble, TritoneEnsemble
from perf.one_stream import measure_one_stream
from perf.pipeline_report import plots, summarize, tables
from perf.prompts import text_of
from perf.results import Page, ResultFolder, default_folder
from perf.runs import Measured, Point, Run, Workload
from perf.server import RunningServer, running_server
from tritone.bundled_model import bundled_model

PROMPT_TOKENS = 64
USUAL_STREAMS = (64, 128)
ONE_STREAM = Point(1, 100.0)
WARM_UP_REQUESTS = 2
WARM_UP_TOKENS = 16


def run_pipeline(
    streams: Sequence[int] | None,
    rate: float,
    tokens: int,
    seconds: float,
    against: Path | None,
    rounds: int,
    seed: int,
    out: Path | None,
    report: Callable[[str], None],
) -> None:
    """Measure, show and keep: the options are those of the command line. Raises TritoneError."""
    ensembles: list[Ensemble] = [TritoneEnsemble(), *([NvidiaEnsemble(against)] if against else [])]
    workload = Workload(text_of(PROMPT_TOKENS, bundled_model()), tokens, seconds, seed)
    results = ResultFolder(out or default_folder("pipeline"), seed)
    runs = run_rounds(ensembles, points(streams, rate), workload, rounds, results, report)
    results.finish(summarize(runs), tables(runs), report, Page(plots(runs)))


def points(streams: Sequence[int] | None, rate: float) -> list[Point]:
    """What to measure: the streams that were asked for, or the usual ones and a single stream for its latency."""
    asked = [Point(count, rate) for count in streams or USUAL_STREAMS]
    return asked if streams else [ONE_STREAM, *asked]


def run_rounds(
    ensembles: Sequence[Ensemble],
    points: Sequence[Point],
    workload: Workload,
    rounds: int,
    results: ResultFolder,
    report: Callable[[str], None],
) -> list[Run]:
    """Measure every side at every point, in rounds; raw samples go to `results` as they come."""
    runs = []
    for round_number in range(1, rounds + 1):
        for point in points:
            for ensemble in ensembles if round_number % 2 else reversed(ensembles):
                load_average = os.getloadavg()[0]
                run = Run(ensemble.name, point, round_number, load_average, measure(ensemble, point, workload))
                keep(run, results)
                report(progress_line(run, rounds))
                runs.append(run)
    return runs


def measure(ensemble: Ensemble, point: Point, workload: Workload) -> Measured:
    """One run: a server of the ensemble is started, loaded and ended."""
    with tempfile.TemporaryDirectory(prefix="tritone-perf-") as folder:
        trace = Path(folder) / "trace" if point.streams == 1 else None
        with running_server(partial(ensemble.write, point=point, trace_file=str(trace or ""))) as server:
            warm_up(server, ensemble, workload, Path(folder))
            if trace:
                return measure_one_stream(server, ensemble, point, workload, trace)
            return measure_streams(server, ensemble, point, workload, Path(folder))


def warm_up(server: RunningServer, ensemble: Ensemble, workload: Workload, folder: Path) -> None:
    """Let every stage do what it does only once before anything is measured; `folder` is for perf_analyzer's files."""
    load = Load(1, WARM_UP_REQUESTS, [ensemble.inputs(workload.prompt, WARM_UP_TOKENS)], GRACE_S)
    run_load(server.url, ensemble.model, load, ensemble.count_tokens, CpuSampler({}), folder)


def keep(run: Run, results: ResultFolder) -> None:
    """Write the raw samples of a run."""
    name = {"side": run.side, **run.point._asdict(), "round": run.round}
    results.add_requests(name, run.measured.requests)
    results.add_cpu_samples(name, run.measured.cpu_samples)


def progress_line(run: Run, rounds: int) -> str:
    """What a run gave, in one line."""
    figures = run.measured.figures
    added = f", {figures['added_p50_ms']:.2f} ms added" if "added_p50_ms" in figures else ""
    return (
        f"round {run.round} of {rounds}: {run.side}, {run.point.streams} x {run.point.rate:g} tokens/s: "
        f"{figures['tokens_per_s']:,.0f} tokens/s, {figures['delivered_share']:.3f} of the set rate{added}"
    )
