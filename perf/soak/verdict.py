"""Whether a soak has passed: nothing grew, nothing failed, no stream is left. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from perf.soak.slope import Points, theil_sen
from perf.soak.watch import MEASURES

HOUR_S = 3600.0


class Growth(NamedTuple):
    """How one measure of one process went, per hour; `is_leak` by the limits of MEASURES."""

    process: str
    measure: str
    first: float
    last: float
    per_hour: float
    surely_per_hour: float
    is_leak: bool


class Sample(NamedTuple):
    """What was held at a time, by (process, measure); a resumed soak is another segment."""

    segment: int
    at_s: float
    values: Mapping[tuple[str, str], float]


def growths(samples: Sequence[Sample], settle_s: float) -> list[Growth]:
    """Of every measure that was seen often enough after the first `settle_s` of each segment."""
    starts: dict[int, float] = {}
    series: dict[tuple[str, str], dict[int, list[tuple[float, float]]]] = {}
    for sample in samples:
        if sample.at_s - starts.setdefault(sample.segment, sample.at_s) < settle_s:
            continue
        for key, value in sample.values.items():
            series.setdefault(key, {}).setdefault(sample.segment, []).append((sample.at_s, value))
    found = (_growth(*key, list(segments.values())) for key, segments in series.items())
    return [one for one in found if one is not None]


def _growth(process: str, measure: str, segments: Sequence[Points]) -> Growth | None:
    slope = theil_sen(segments)
    if slope is None:
        return None
    seconds = sum(points[-1][0] - points[0][0] for points in segments)
    limit = MEASURES[measure]
    is_leak = slope.lower * HOUR_S > limit.per_hour and slope.median * seconds > limit.least
    first, last = segments[0][0][1], segments[-1][-1][1]
    return Growth(process, measure, first, last, slope.median * HOUR_S, slope.lower * HOUR_S, is_leak)


def problems(found: Sequence[Growth], errors: Mapping[str, int], answered: int, streams_left: int | None) -> list[str]:
    """Why a soak has not passed, a sentence each; none if it has."""
    said = [
        f"{one.process}: {one.measure} grows by {one.per_hour:,.1f} {MEASURES[one.measure].unit} an hour "
        f"(from {one.first:,.1f} to {one.last:,.1f}), surely by more than {one.surely_per_hour:,.1f}"
        for one in found
        if one.is_leak
    ]
    said += [f"{count} requests failed: {kind}" for kind, count in errors.items()]
    if not answered:
        said.append("no request was answered")
    if streams_left:
        said.append(f"{streams_left} streams are still held after the load has ended")
    return said
