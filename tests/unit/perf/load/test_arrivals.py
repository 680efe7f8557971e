"""Arrivals keep their rate, and are as even or bursty as asked."""

from __future__ import annotations

import random
from itertools import islice, pairwise
from statistics import mean, stdev

import pytest

from perf.load.arrivals import arrival_times_s

COUNT = 20_000


def gaps_s(kind: str, burstiness: float = 1.0, seed: int = 1) -> list[float]:
    times_s = list(islice(arrival_times_s(kind, 50.0, burstiness, random.Random(seed)), COUNT))
    return [later - earlier for earlier, later in pairwise(times_s)]


def test_constant() -> None:
    assert list(islice(arrival_times_s("constant", 4.0, 1.0, random.Random(0)), 4)) == [0, 0.25, 0.5, 0.75]


@pytest.mark.parametrize(
    ("kind", "burstiness", "variation"), [("poisson", 9.0, 1.0), ("gamma", 0.25, 2.0), ("gamma", 4.0, 0.5)]
)
def test_mean_and_coefficient_of_variation(kind: str, burstiness: float, variation: float) -> None:
    gaps = gaps_s(kind, burstiness)
    assert mean(gaps) == pytest.approx(1 / 50, rel=0.05)
    assert stdev(gaps) / mean(gaps) == pytest.approx(variation, rel=0.05)


def test_a_seed_repeats_them() -> None:
    assert gaps_s("poisson", seed=3) == gaps_s("poisson", seed=3) != gaps_s("poisson", seed=4)
