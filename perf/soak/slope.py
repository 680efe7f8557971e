"""Whether a figure grows: its slope by Theil and Sen, and how sure that is. No clock, no I/O."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

MOST_POINTS = 150
ONE_SIDED_95 = 1.645

Points = Sequence[tuple[float, float]]
"""(second, value), in the order of time."""


class Slope(NamedTuple):
    """Per second: the median of the slopes of all pairs, and what it exceeds with 95 % confidence."""

    median: float
    lower: float


def theil_sen(segments: Sequence[Points]) -> Slope | None:
    """The slope that all segments have in common; None for fewer than three points in every one.

    Pairs are of one segment, so that a step between two runs of a server is no slope. lower = the slope of rank
    (N - 1.645 sqrt(V)) / 2 of N, with Kendall's variance V = sum of n (n - 1) (2 n + 5) / 18 over the segments
    (Sen 1968).
    """
    slopes, variance = [], 0.0
    for points in map(thinned, segments):
        count = len(points)
        if count < 3:
            continue
        variance += count * (count - 1) * (2 * count + 5) / 18
        slopes += [(later[1] - sooner[1]) / (later[0] - sooner[0]) for sooner, later in combinations(points, 2)]
    if not slopes:
        return None
    slopes.sort()
    rank = (len(slopes) - ONE_SIDED_95 * math.sqrt(variance)) / 2
    return Slope(statistics.median(slopes), slopes[max(0, math.floor(rank))])


def thinned(points: Points) -> Points:
    """At most MOST_POINTS: medians of blocks, which also takes the noise of single samples out."""
    size = math.ceil(len(points) / MOST_POINTS)
    if size <= 1:
        return points
    blocks = [points[start : start + size] for start in range(0, len(points), size)]
    return [tuple(statistics.median(column) for column in zip(*block, strict=True)) for block in blocks]
