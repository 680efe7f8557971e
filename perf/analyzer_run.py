"""`python -m perf perf-analyzer`: NVIDIA's perf_analyzer against an ensemble that runs, its export in our report.

Runs on the load host.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click

from perf.analyzer import Load, run_load
from perf.cpu_sampler import CpuSampler
from perf.export import cumulative
from perf.load.command import REQUESTS_A_STREAM, load_tokenizer
from perf.load.figures import Point, figures_of, warnings_of
from perf.load.lengths import Lengths
from perf.load.record import COUNTED, LoadRecord
from perf.load.report import NOTES, Measurement, load_plots, load_tables
from perf.load.workload import PromptMaker, synthetic
from perf.results import Page, ResultFolder, default_folder

INPUTS = 101  # different requests, taken in turn; a prime, so that no stream meets the same ones again and again
TIMEOUT_S = 3600.0


def run_analyzer(
    url: str,
    model: str,
    tokenizer: Path | None,
    prompt_tokens: Lengths,
    output_tokens: Lengths,
    concurrency: Sequence[float],
    requests: int | None,
    seed: int,
    out: Path | None,
    report: Callable[[str], None],
) -> None:
    """Measure, show and keep: the options are those of the command line. Raises TritoneError."""
    if any(streams != int(streams) for streams in concurrency):
        raise click.UsageError("--concurrency: expected whole numbers")
    maker = PromptMaker(load_tokenizer(tokenizer), 0, random.Random(seed))
    source = synthetic(maker.text, prompt_tokens, output_tokens, random.Random(seed))
    inputs = [inputs_of(str(request.prompt), request.max_tokens) for request in islice(source, INPUTS)]
    results = ResultFolder(out or default_folder("perf-analyzer"), seed)
    measured: list[Measurement] = []
    warnings: list[str] = []
    for streams in map(int, concurrency):
        point = Point("concurrency", streams)
        report(f"{point.title}: perf_analyzer runs")
        load = Load(streams, requests or REQUESTS_A_STREAM * streams, inputs, TIMEOUT_S)
        with CpuSampler({}) as sampler:
            found = run_load(url, model, load, cumulative, sampler, results.path)
        for name in ("inputs.json", "export.json", "perf_analyzer.log"):
            os.replace(results.path / name, results.path / f"{streams}-{name}")
        records = [
            LoadRecord(one.started_ns, one.started_ns, one.received_ns, one.tokens, one.received_ns[-1], None, COUNTED)
            for one in found
        ]
        results.add_requests(point._asdict(), records)
        figures = figures_of(point, records, {}, None)
        measured.append((point, records, figures))
        warnings += [f"{point.title}: {warning}" for warning in warnings_of(figures)]
        report(f"  {figures['output_tokens_per_s']:,.1f} tokens/s, TTFT P50 {figures['ttft_p50_ms']:.0f} ms")
    summary = {
        "target": {"front": "perf_analyzer", "url": url, "model": model},
        "points": [{**point._asdict(), **figures} for point, _, figures in measured],
    }
    sides = {model: measured}
    results.finish(summary, load_tables(sides, {}), report, Page(load_plots(sides, {}), warnings, NOTES))


def inputs_of(prompt: str, max_tokens: int) -> Mapping[str, Any]:
    """The inputs of one request for an answer of exactly so many tokens."""
    return {"text_input": [prompt], "max_tokens": [max_tokens], "ignore_eos": [True], "stream": [True]}
