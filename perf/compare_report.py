"""The figures of sides next to each other: medians over rounds, ratios to the first side within them, tables, plots.

Runs on the load host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from perf import metrics
from perf.load.figures import Point, figures_of
from perf.load.record import COUNTED, LoadRecord
from perf.load.report import LATENCY, Sides, load_plots
from perf.overhead_report import Turn
from perf.overhead_report import figures_of as turn_figures
from perf.plots import Bars, Plot
from perf.processes import Memory
from perf.tables import Cell, Table

Memories = Mapping[str, Mapping[str, Memory]]
"""Of every process of every side."""


class Served(NamedTuple):
    """What a side's clients got in a turn, and the CPU that all its processes used for it (None: not ours to see)."""

    tokens_per_s: float
    ttft_p50_ms: float
    e2e_p99_ms: float
    cpu_s_per_1000_tokens: float | None


class Ratio(NamedTuple):
    """A side's / the first side's within a round: median, least and greatest."""

    median: float
    least: float
    greatest: float


def served(turn: Turn) -> Served:
    """The figures of one turn."""
    figures = figures_of(Point("concurrency", turn.streams), load_records(turn), {}, None)
    return Served(
        tokens_per_s=turn.tokens_per_s,
        ttft_p50_ms=figures["ttft_p50_ms"],
        e2e_p99_ms=figures["e2e_p99_ms"],
        cpu_s_per_1000_tokens=metrics.ratio(turn.cores * 1000, turn.tokens_per_s) if turn.cores else None,
    )


def load_records(turn: Turn) -> list[LoadRecord]:
    """The requests of a turn as a load test has them: all were answered."""
    return [
        LoadRecord(one.started_ns, one.started_ns, one.received_ns, one.tokens, one.received_ns[-1], None, COUNTED)
        for one in turn.requests
    ]


def pooled(turns: Sequence[Turn]) -> Sides:
    """By side, for each number of streams: the records of all rounds, their latencies, the median of their rates."""
    sides: dict[str, list[Any]] = {side: [] for side in _names(turns)}
    for side, measured in sides.items():
        for streams in _streams(turns):
            point = Point("concurrency", streams)
            rounds = [turn for turn in turns if (turn.side, turn.streams) == (side, streams)]
            records = [record for turn in rounds for record in load_records(turn)]
            figures = figures_of(point, records, {}, None)
            figures["output_tokens_per_s"] = metrics.median_of([turn.tokens_per_s for turn in rounds])
            measured.append((point, records, figures))
    return sides


def ratios(turns: Sequence[Turn]) -> dict[tuple[str, int], dict[str, Ratio | None]]:
    """By side but the first and number of streams, for each figure of Served."""
    first, *others = _names(turns)
    found = {(turn.side, turn.streams, turn.round): served(turn) for turn in turns}
    return {
        (side, streams): {
            name: _spread(
                [
                    (getattr(one, name), getattr(found[first, streams, number], name))
                    for (other, count, number), one in found.items()
                    if (other, count) == (side, streams)
                ]
            )
            for name in Served._fields
        }
        for side in others
        for streams in _streams(turns)
    }


def summarize(turns: Sequence[Turn], memory: Memories, options: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """What each side was told, every turn's figures, all of every side, ratios and memory, as JSON can hold them."""
    return {
        "options": {side: list(told) for side, told in options.items()},
        "turns": [{**turn_figures(turn), **served(turn)._asdict()} for turn in turns],
        "sides": [
            {"side": side, "streams": int(point.value), **figures}
            for side, measured in pooled(turns).items()
            for point, _, figures in measured
        ],
        "ratios": [
            {
                "side": side,
                "streams": streams,
                **{name: ratio._asdict() if ratio else None for name, ratio in found.items()},
            }
            for (side, streams), found in ratios(turns).items()
        ],
        "memory": {
            side: {process: found._asdict() for process, found in processes.items()}
            for side, processes in memory.items()
        },
    }


def tables(turns: Sequence[Turn], memory: Memories, options: Mapping[str, Sequence[str]]) -> list[Table]:
    """What is shown to people."""
    sides = pooled(turns)
    least, most = min(_streams(turns)), max(_streams(turns))
    idle = max(turn.idle_side_cores for turn in turns)
    shown = [
        Table(
            f"At a glance; sides that had not their turn used at most {idle:.2f} cores",
            [
                "side",
                f"one answer, s, {least} at once",
                f"tokens/s, {most} at once",
                "E2E P99 s",
                "CPU s/1,000 tokens",
                "PSS MiB",
            ],
            [[side, *_glance(side, sides, turns, memory)] for side in sides],
        ),
        Table(
            "Latency, ms, and tokens/s",
            ["side", "streams", "tokens/s", *LATENCY],
            [
                [side, int(point.value), figures["output_tokens_per_s"], *(figures[name] for name in LATENCY.values())]
                for side, measured in sides.items()
                for point, _, figures in measured
            ],
        ),
    ]
    compared = ratios(turns)
    if compared:
        heads = [
            f"{title} {part}"
            for title in ("tokens/s", "TTFT P50", "E2E P99", "CPU/token")
            for part in ("ratio", "least", "greatest")
        ]
        rows: list[list[Cell]] = [
            [side, streams, *(value for ratio in found.values() for value in (ratio or (None, None, None)))]
            for (side, streams), found in compared.items()
        ]
        shown.append(Table(f"Side / {_names(turns)[0]}, within a round", ["side", "streams", *heads], rows))
    return [
        *shown,
        Table("Resident MiB", ["side", "process", "RSS", "PSS"], _memory_rows(memory)),
        Table("Options", ["side", "options"], [[side, " ".join(told)] for side, told in options.items()]),
    ]


def plots(turns: Sequence[Turn], memory: Memories) -> list[Plot | Bars]:
    """Those of a load test, and memory."""
    known = {side: total for side, processes in memory.items() if (total := pss_mib(processes)) is not None}
    drawn: list[Plot | Bars] = [*load_plots(pooled(turns), {})]
    return [*drawn, Bars("Memory of all processes", "resident (PSS), MiB", known)] if known else drawn


def pss_mib(processes: Mapping[str, Memory]) -> float | None:
    """The sum of a side: of PSS alone, as RSS counts shared pages more than once. None if any may not be read."""
    shares = [found.pss_mib for found in processes.values() if found.pss_mib is not None]
    return sum(shares) if shares and len(shares) == len(processes) else None


def _glance(side: str, sides: Sides, turns: Sequence[Turn], memory: Memories) -> list[Cell]:
    single, crowd = (
        min(sides[side], key=lambda one: one[0].value)[2],
        max(sides[side], key=lambda one: one[0].value)[2],
    )
    most = max(_streams(turns))
    costs = [served(turn).cpu_s_per_1000_tokens for turn in turns if (turn.side, turn.streams) == (side, most)]
    known = [cost for cost in costs if cost is not None]
    return [
        single["e2e_p50_ms"] / 1000,
        crowd["output_tokens_per_s"],
        crowd["e2e_p99_ms"] / 1000,
        metrics.median_of(known) if known else None,
        pss_mib(memory.get(side, {})),
    ]


def _memory_rows(memory: Memories) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for side, processes in memory.items():
        rows += [[side, process, *found] for process, found in processes.items()]
        rows.append([side, "all", None, pss_mib(processes)])
    return rows


def _names(turns: Sequence[Turn]) -> list[str]:
    return list(dict.fromkeys(turn.side for turn in sorted(turns, key=lambda turn: turn.round)))


def _streams(turns: Sequence[Turn]) -> list[int]:
    return list(dict.fromkeys(turn.streams for turn in turns))


def _spread(pairs: Sequence[tuple[float | None, float | None]]) -> Ratio | None:
    values = [metrics.ratio(one, first) for one, first in pairs if one is not None and first is not None]
    return Ratio(metrics.median_of(values), min(values), max(values)) if values else None
