"""The figures of an overhead benchmark: medians over its rounds, ratios within them, tables. Runs on the load host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from perf import metrics
from perf.plots import Bars, Plot, Series
from perf.processes import Memory
from perf.records import CpuSample, RequestRecord, Window
from perf.runs import MS_PER_NS
from perf.tables import Table


class Turn(NamedTuple):
    """One burst of one side. `cores` is how many it used of the CPU meanwhile, `idle_side_cores` what the other did."""

    side: str
    streams: int
    round: int
    load_average: float
    tokens_per_s: float
    cores: float
    idle_side_cores: float
    requests: Sequence[RequestRecord]
    cpu_samples: Mapping[str, Sequence[CpuSample]]


class Overhead(NamedTuple):
    """Medians over the rounds; `ratio` is tritone / bare within a round, `idle_side_cores` the most of any turn.

    `ttft_ms` and `chunk_gap_ms` are Tritone's: from a request to its first token, and from chunk to chunk.
    """

    bare_tokens_per_s: float
    tritone_tokens_per_s: float
    ratio: float
    least_ratio: float
    greatest_ratio: float
    ttft_ms: float
    chunk_gap_ms: float | None
    idle_side_cores: float


def overheads(turns: Sequence[Turn]) -> dict[int, Overhead]:
    """By number of streams."""
    return {
        streams: _overhead([turn for turn in turns if turn.streams == streams])
        for streams in dict.fromkeys(turn.streams for turn in turns)
    }


def summarize(turns: Sequence[Turn], memory: Mapping[str, Memory], engine: Mapping[str, Any]) -> dict[str, Any]:
    """The engine's settings, every turn's figures, the medians and the memory, as JSON can hold them."""
    return {
        "engine": dict(engine),
        "turns": [figures_of(turn) for turn in turns],
        "medians": [{"streams": streams, **found._asdict()} for streams, found in overheads(turns).items()],
        "memory": {process: found._asdict() for process, found in memory.items()},
    }


def figures_of(turn: Turn) -> dict[str, Any]:
    """What a turn gave, without its raw samples."""
    samples = ("requests", "cpu_samples")
    return {name: value for name, value in turn._asdict().items() if name not in samples}


def tables(turns: Sequence[Turn], memory: Mapping[str, Memory]) -> list[Table]:
    """What is shown to people."""
    headings = [
        "streams",
        "bare tokens/s",
        "tritone tokens/s",
        "tritone / bare",
        "least",
        "greatest",
        "TTFT P50 ms",
        "chunk gap P50 ms",
        "cores used by the idle side",
    ]
    return [
        Table("Overhead", headings, [[streams, *found] for streams, found in overheads(turns).items()]),
        Table("Resident MiB", ["process", "RSS", "PSS"], [[process, *found] for process, found in memory.items()]),
    ]


def plots(turns: Sequence[Turn], memory: Mapping[str, Memory]) -> list[Plot | Bars]:
    """Both sides over the streams, what is left of the bare engine's speed in each round, and memory."""
    found = overheads(turns)

    def curve(name: str, figure: str, group: str, is_dashed: bool = False) -> Series:
        return Series(name, [(streams, getattr(one, figure)) for streams, one in found.items()], group, is_dashed)

    rates = [curve("bare engine", "bare_tokens_per_s", "bare"), curve("Tritone", "tritone_tokens_per_s", "ours")]
    spread = [
        curve("greatest", "greatest_ratio", "rounds", is_dashed=True),
        curve("median", "ratio", "median"),
        curve("least", "least_ratio", "rounds", is_dashed=True),
    ]
    return [
        over_streams("Throughput", "output tokens/s", rates),
        over_streams("What is left of the engine's speed", "tokens/s, Tritone / bare engine", spread),
        Bars("Memory by process", "resident (RSS), MiB", {name: one.rss_mib for name, one in memory.items()}),
    ]


def over_streams(title: str, y_label: str, series: Sequence[Series]) -> Plot:
    """Curves over the streams at once, on a logarithmic axis where the counts are far apart."""
    counts = sorted({x for one in series for x, _ in one.points})
    return Plot(title, "streams at once", y_label, series, has_log_x=counts[-1] / counts[0] >= 8, ticks=counts)


def _overhead(turns: Sequence[Turn]) -> Overhead:
    bare = {turn.round: turn.tokens_per_s for turn in turns if turn.side == "bare"}
    ours = {turn.round: turn.tokens_per_s for turn in turns if turn.side == "tritone"}
    ratios = [metrics.ratio(ours[number], bare[number]) for number in bare]
    requests = [metrics.with_tokens(request) for turn in turns if turn.side == "tritone" for request in turn.requests]
    start_ns, end_ns = metrics.burst_window(requests)
    window = Window(start_ns - 1, end_ns)
    gaps_ns = metrics.chunk_gaps_ns(requests, window)
    return Overhead(
        bare_tokens_per_s=metrics.median_of(list(bare.values())),
        tritone_tokens_per_s=metrics.median_of(list(ours.values())),
        ratio=metrics.median_of(ratios),
        least_ratio=min(ratios),
        greatest_ratio=max(ratios),
        ttft_ms=metrics.percentile(metrics.first_token_ns(requests, window), 50) * MS_PER_NS,
        chunk_gap_ms=metrics.percentile(gaps_ns, 50) * MS_PER_NS if gaps_ns else None,
        idle_side_cores=max(turn.idle_side_cores for turn in turns),
    )
