"""A load as it went over time: what happened in each slice of it. Runs on the load host; no clock, no I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from perf.load import metrics
from perf.load.figures import MS_PER_NS
from perf.load.record import LoadRecord
from perf.metrics import NS_PER_S
from perf.plots import Plot, Series

MOST_SLICES = 120
SLICES_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)


class Slice(NamedTuple):
    """`seconds` from `start_s`. Tokens count where they came, answers and errors where they ended; no value is None."""

    start_s: float
    seconds: float
    tokens_per_s: float
    answered: int
    errors: int
    ttft_p50_ms: float | None
    ttft_p99_ms: float | None
    per_token_p50_ms: float | None
    per_token_p99_ms: float | None


def slice_seconds(duration_s: float) -> int:
    """A length that makes at most MOST_SLICES slices of a duration."""
    return next((length for length in SLICES_S if duration_s / length <= MOST_SLICES), SLICES_S[-1])


def slices(records: Iterable[LoadRecord], start_ns: int, seconds: float) -> list[Slice]:
    """The records, in the order of their ends, by slices of `seconds` from `start_ns`, without gaps up to the last end.

    Those of one slice are held in memory at a time.
    """
    tokens: dict[int, int] = defaultdict(int)
    found: dict[int, Slice] = {}

    def place(time_ns: int) -> int:
        return int((time_ns - start_ns) / NS_PER_S // seconds)

    for number, group in groupby(records, key=lambda record: place(record.ended_ns)):
        ended = list(group)
        for record in ended:
            for time_ns, count in zip(record.received_ns, record.tokens, strict=True):
                tokens[place(time_ns)] += count
        found[number] = _slice(number * seconds, seconds, ended)
    return [
        found.get(number, _slice(number * seconds, seconds, []))._replace(tokens_per_s=tokens[number] / seconds)
        for number in range(max([*tokens, *found], default=-1) + 1)
    ]


def _slice(start_s: float, seconds: float, ended: Sequence[LoadRecord]) -> Slice:
    answered = metrics.answered(ended)
    firsts = [(float(metrics.ttft_ns(one)), 1) for one in answered]
    gaps = [pair for one in answered for pair in metrics.per_token_ns(one)]
    return Slice(
        start_s,
        seconds,
        0.0,
        len(answered),
        len(ended) - len(answered),
        *(_percentile_ms(values, percent) for values in (firsts, gaps) for percent in (50, 99)),
    )


def _percentile_ms(values: Sequence[tuple[float, int]], percent: float) -> float | None:
    return metrics.weighted_percentile(values, percent) * MS_PER_NS if values else None


def time_plots(found: Sequence[Slice], more: Mapping[str, Sequence[tuple[float, float]]] | None = None) -> list[Plot]:
    """Curves over time; `more` are others, by "title, unit", of (second, value)."""
    unit, divisor = time_unit(max((one.start_s for one in found), default=0.0))

    def points(name: str) -> list[tuple[float, float]]:
        values = ((one.start_s / divisor, getattr(one, name)) for one in found)
        return [(at, value) for at, value in values if value is not None]

    def curve(title: str, y_label: str, names: Mapping[str, str]) -> Plot:
        series = [Series(label, points(name), name[:4], "p99" in name) for label, name in names.items()]
        return Plot(title, f"{unit} from the start", y_label, series)

    plots = [
        curve("Tokens over time", "output tokens/s", {"tokens/s": "tokens_per_s"}),
        curve("Time to first token over time", "TTFT, ms", {"P50": "ttft_p50_ms", "P99": "ttft_p99_ms"}),
        curve("Per-token latency over time", "per token, ms", {"P50": "per_token_p50_ms", "P99": "per_token_p99_ms"}),
    ]
    if any(one.errors for one in found):
        plots.append(curve("Errors over time", "requests", {"errors": "errors"}))
    for name, values in (more or {}).items():
        title, _, label = name.partition(", ")
        line = [(at / divisor, value) for at, value in values]
        plots.append(Plot(title, f"{unit} from the start", label, [Series(label, line, label)]))
    return plots


def time_unit(duration_s: float) -> tuple[str, float]:
    """The unit to show a duration in, and its seconds."""
    return ("hours", 3600.0) if duration_s >= 7200 else ("minutes", 60.0) if duration_s >= 300 else ("seconds", 1.0)


def record_of(row: Mapping[str, Any]) -> LoadRecord:
    """A record out of a row of requests.jsonl."""
    values = {name: row[name] for name in LoadRecord._fields}
    return LoadRecord(**{**values, "received_ns": tuple(row["received_ns"]), "tokens": tuple(row["tokens"])})
