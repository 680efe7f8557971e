"""The figures of a pipeline benchmark: medians over its rounds, ratios within them, tables. Runs on the load host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perf import metrics
from perf.plots import Bars, Plot
from perf.processes import STAGES
from perf.runs import Point, Run
from perf.tables import Cell, Table

SERVER_PROCESSES = ("server", *STAGES)
PROCESSES = (*SERVER_PROCESSES, "client")
FLOW = {
    "tokens/s": "tokens_per_s",
    "of set rate": "delivered_share",
    "tokens/chunk": "tokens_per_chunk",
    "TTFT P50 ms": "ttft_p50_ms",
    "TTFT P99 ms": "ttft_p99_ms",
    "chunk gap P50 ms": "chunk_gap_p50_ms",
    "chunk gap P99 ms": "chunk_gap_p99_ms",
    "added P50 ms": "added_p50_ms",
    "added P99 ms": "added_p99_ms",
}
"""Headings and figures of the main table."""

COMPARED = {"tokens/s": "tokens_per_s", "CPU for a token": "cpu_s_per_1000_tokens"}
"""Headings and figures of the comparison; the client's CPU is left out."""

Group = tuple[str, Point]
"""A side and a point; the rounds of one are summed up together."""


def summarize(runs: Sequence[Run]) -> dict[str, Any]:
    """Every run's figures, their medians, and the ratios, as JSON can hold them."""
    return {
        "runs": [
            {
                **_name(run.side, run.point),
                "round": run.round,
                "load_average": run.load_average,
                **run.measured.figures,
                "memory": {process: memory._asdict() for process, memory in run.measured.memory.items()},
            }
            for run in runs
        ],
        "medians": [{**_name(*group), **figures} for group, figures in medians(runs).items()],
        "ratios": [{**point._asdict(), **figures} for point, figures in ratios(runs).items()],
    }


def tables(runs: Sequence[Run]) -> list[Table]:
    """What is shown to people."""
    found = medians(runs)
    side = ("side", "streams", "tokens/s each")
    shown = [
        Table("Delivered", [*side, *FLOW], _rows(found, lambda figures: [figures.get(name) for name in FLOW.values()])),
        Table("CPU seconds for 1,000 tokens", [*side, *PROCESSES, "all but client"], _rows(found, _cpu_cells)),
        Table("Resident MiB (proportional share)", [*side, *SERVER_PROCESSES], _rows(found, _memory_cells)),
    ]
    compared = ratios(runs)
    if compared:
        rows = [[*point, *figures.values()] for point, figures in compared.items()]
        shown.append(Table("tritone / against", ["streams", "tokens/s each", *COMPARED], rows))
    return shown


def plots(runs: Sequence[Run]) -> list[Plot | Bars]:
    """For every side and point: the part of the set rate that arrived, and the CPU of every token."""
    found = {
        f"{side}, {point.streams} of {point.rate:g}/s": figures for (side, point), figures in medians(runs).items()
    }
    delivered = {name: figures["delivered_share"] * 100 for name, figures in found.items()}
    costs = {name: figures["cpu_s_per_1000_tokens"] for name, figures in found.items()}
    return [
        Bars("Delivered", "of the tokens/s that the engine is set to, %", delivered),
        Bars("CPU of the server", "CPU for 1,000 tokens, s", costs),
    ]


def medians(runs: Sequence[Run]) -> dict[Group, dict[str, float]]:
    """The median over the rounds of each figure; memory is among them as rss_mib_<process> and pss_mib_<process>."""
    groups: dict[Group, list[dict[str, float]]] = {}
    for run in runs:
        groups.setdefault((run.side, run.point), []).append(all_figures(run))
    return {
        group: {name: metrics.median_of([figures[name] for figures in rounds]) for name in rounds[0]}
        for group, rounds in groups.items()
    }


def ratios(runs: Sequence[Run]) -> dict[Point, dict[str, float]]:
    """Ours / theirs: the median of the ratios within each round. Empty when there is one side only."""
    figures = {(run.side, run.point, run.round): all_figures(run) for run in runs}
    rounds: dict[Point, list[dict[str, float]]] = {}
    for (side, point, number), ours in figures.items():
        theirs = figures.get(("against", point, number))
        if side == "tritone" and theirs:
            rounds.setdefault(point, []).append(
                {name: metrics.ratio(ours[name], theirs[name]) for name in COMPARED.values()}
            )
    return {
        point: {name: metrics.median_of([found[name] for found in compared]) for name in COMPARED.values()}
        for point, compared in rounds.items()
    }


def all_figures(run: Run) -> dict[str, float]:
    """The run's figures, the memory of its processes, and the CPU time of all of them but the client."""
    figures = dict(run.measured.figures)
    figures["cpu_s_per_1000_tokens"] = sum(figures[f"cpu_s_per_1000_tokens_{process}"] for process in SERVER_PROCESSES)
    for process, memory in run.measured.memory.items():
        figures[f"rss_mib_{process}"] = memory.rss_mib
        if memory.pss_mib is not None:
            figures[f"pss_mib_{process}"] = memory.pss_mib
    return figures


def _name(side: str, point: Point) -> dict[str, Any]:
    return {"side": side, **point._asdict()}


def _rows(found: Mapping[Group, Mapping[str, float]], cells: Any) -> list[list[Cell]]:
    return [[side, *point, *cells(figures)] for (side, point), figures in found.items()]


def _cpu_cells(figures: Mapping[str, float]) -> list[Cell]:
    names = [*(f"cpu_s_per_1000_tokens_{process}" for process in PROCESSES), "cpu_s_per_1000_tokens"]
    return [figures.get(name) for name in names]


def _memory_cells(figures: Mapping[str, float]) -> list[Cell]:
    return [
        _memory_cell(figures.get(f"rss_mib_{process}"), figures.get(f"pss_mib_{process}"))
        for process in SERVER_PROCESSES
    ]


def _memory_cell(rss_mib: float | None, pss_mib: float | None) -> Cell:
    if rss_mib is None or pss_mib is None:
        return rss_mib
    return f"{rss_mib:,.0f} ({pss_mib:,.0f})"
