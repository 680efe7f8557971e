"""The figures of servers next to each other: medians over the rounds, ratios within them, tables.

Runs on the load host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from perf import metrics
from perf.overhead_report import Turn, figures_of
from perf.processes import Memory
from perf.records import RequestRecord, Window
from perf.runs import MS_PER_NS
from perf.tables import Cell, Table

OURS = "tritone"


class Served(NamedTuple):
    """What a side's clients got, and what of the CPU all of its processes used for it, in a turn or by the median.

    Gaps are those between events with text, None where no answer had two of them.
    """

    tokens_per_s: float
    ttft_p50_ms: float
    ttft_p99_ms: float
    gap_p50_ms: float | None
    gap_p99_ms: float | None
    events_per_answer: float
    cpu_s_per_1000_tokens: float


class Ratio(NamedTuple):
    """Ours / the other's within a round: median, least and greatest."""

    median: float
    least: float
    greatest: float


RATIOS = ("tokens_per_s", "ttft_p50_ms", "cpu_s_per_1000_tokens")


def served(turn: Turn) -> Served:
    """The figures of one turn."""
    texts = [without_usage(request) for request in turn.requests]
    start_ns, end_ns = metrics.burst_window(turn.requests)
    window = Window(start_ns - 1, end_ns)
    first_ns, gaps_ns = metrics.first_token_ns(texts, window), metrics.chunk_gaps_ns(texts, window)
    return Served(
        tokens_per_s=turn.tokens_per_s,
        ttft_p50_ms=metrics.percentile(first_ns, 50) * MS_PER_NS,
        ttft_p99_ms=metrics.percentile(first_ns, 99) * MS_PER_NS,
        gap_p50_ms=metrics.percentile(gaps_ns, 50) * MS_PER_NS if gaps_ns else None,
        gap_p99_ms=metrics.percentile(gaps_ns, 99) * MS_PER_NS if gaps_ns else None,
        events_per_answer=metrics.ratio(metrics.chunks(texts), len(texts)),
        cpu_s_per_1000_tokens=metrics.ratio(turn.cores * 1000, turn.tokens_per_s),
    )


def without_usage(request: RequestRecord) -> RequestRecord:
    """The request without the last event of its answer, which has the usage and no text."""
    return request._replace(received_ns=request.received_ns[:-1], tokens=request.tokens[:-1])


def medians(turns: Sequence[Turn]) -> dict[tuple[int, str], Served]:
    """By number of streams and side, over the rounds."""
    groups: dict[tuple[int, str], list[Served]] = {}
    for turn in turns:
        groups.setdefault((turn.streams, turn.side), []).append(served(turn))
    return {group: Served._make(map(_median, zip(*rounds, strict=True))) for group, rounds in groups.items()}


def ratios(turns: Sequence[Turn]) -> dict[tuple[int, str], dict[str, Ratio]]:
    """By number of streams and other side, for each figure of RATIOS."""
    found = {(turn.streams, turn.side, turn.round): served(turn)._asdict() for turn in turns}
    rounds: dict[tuple[int, str], list[dict[str, float]]] = {}
    for (streams, side, number), theirs in found.items():
        if side != OURS:
            ours = found[streams, OURS, number]
            rounds.setdefault((streams, side), []).append(
                {name: metrics.ratio(ours[name], theirs[name]) for name in RATIOS}
            )
    return {
        group: {name: _spread([one[name] for one in compared]) for name in RATIOS} for group, compared in rounds.items()
    }


def summarize(
    turns: Sequence[Turn], memory: Mapping[str, Mapping[str, Memory]], options: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """What each side was told, every turn's figures, the medians, the ratios and the memory, as JSON can hold them."""
    return {
        "options": {side: list(told) for side, told in options.items()},
        "turns": [{**figures_of(turn), **served(turn)._asdict()} for turn in turns],
        "medians": [
            {"streams": streams, "side": side, **found._asdict()} for (streams, side), found in medians(turns).items()
        ],
        "ratios": [
            {"streams": streams, "against": side, **{name: ratio._asdict() for name, ratio in found.items()}}
            for (streams, side), found in ratios(turns).items()
        ],
        "memory": {
            side: {process: found._asdict() for process, found in processes.items()}
            for side, processes in memory.items()
        },
    }


def tables(
    turns: Sequence[Turn], memory: Mapping[str, Mapping[str, Memory]], options: Mapping[str, Sequence[str]]
) -> list[Table]:
    """What is shown to people."""
    figures = [
        "tokens/s",
        "TTFT P50 ms",
        "TTFT P99 ms",
        "gap P50 ms",
        "gap P99 ms",
        "events/answer",
        "CPU s/1,000 tokens",
    ]
    compared = [
        "streams",
        "against",
        "tokens/s",
        "least",
        "greatest",
        "TTFT P50",
        "least",
        "greatest",
        "CPU",
        "least",
        "greatest",
    ]
    idle = max(turn.idle_side_cores for turn in turns)
    return [
        Table(
            f"Served, the other sides using at most {idle:.2f} cores meanwhile",
            ["streams", "side", *figures],
            [[streams, side, *found] for (streams, side), found in medians(turns).items()],
        ),
        Table(
            f"{OURS} / the other side",
            compared,
            [
                [streams, side, *(value for name in RATIOS for value in found[name])]
                for (streams, side), found in ratios(turns).items()
            ],
        ),
        Table("Resident MiB", ["side", "process", "RSS", "PSS"], _memory_rows(memory)),
        Table("Options", ["side", "options"], [[side, " ".join(told)] for side, told in options.items()]),
    ]


def _memory_rows(memory: Mapping[str, Mapping[str, Memory]]) -> list[list[Cell]]:
    """Every process, and the sum of each side: of PSS alone, as RSS counts shared pages more than once."""
    rows: list[list[Cell]] = []
    for side, processes in memory.items():
        rows += [[side, process, *found] for process, found in processes.items()]
        shares = [found.pss_mib for found in processes.values() if found.pss_mib is not None]
        rows.append([side, "all", None, sum(shares) if len(shares) == len(processes) else None])
    return rows


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return metrics.median_of(known) if known else None


def _spread(values: Sequence[float]) -> Ratio:
    return Ratio(metrics.median_of(values), min(values), max(values))
