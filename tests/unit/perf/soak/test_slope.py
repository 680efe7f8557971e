from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf.soak.slope import MOST_POINTS, theil_sen, thinned


def line(slope: float, count: int, start: float = 0.0, noise: float = 0.0, seed: int = 0) -> list[tuple[float, float]]:
    source = random.Random(seed)
    return [(float(at), start + slope * at + source.gauss(0, noise)) for at in range(count)]


def test_a_line_is_known_surely() -> None:
    slope = theil_sen([line(2.5, 40)])
    assert slope is not None
    assert (slope.median, slope.lower) == (pytest.approx(2.5), pytest.approx(2.5))


def test_noise_is_no_slope() -> None:
    falsely = 0
    for seed in range(100):
        slope = theil_sen([line(0, 60, 100, noise=5, seed=seed)])
        assert slope is not None
        falsely += slope.lower > 0
    assert falsely <= 12  # 5 % are expected


def test_a_slope_within_noise_is_found() -> None:
    slope = theil_sen([line(0.5, 100, 100, noise=5)])
    assert slope is not None
    assert slope.median == pytest.approx(0.5, abs=0.05)
    assert 0.4 < slope.lower < slope.median


def test_outliers_do_not_matter() -> None:
    points = [(at, 1e6 if at % 10 == 3 else value) for at, value in line(1, 50)]
    slope = theil_sen([points])
    assert slope is not None
    assert slope.median == pytest.approx(1)


def test_a_step_between_segments_is_no_slope() -> None:
    slope = theil_sen([line(0, 30, 10), line(0, 30, 5000)])
    assert slope is not None
    assert (slope.median, slope.lower) == (0, 0)


@pytest.mark.parametrize("segments", [[], [[]], [line(1, 2)], [line(1, 2), line(1, 2)]])
def test_too_few_points_tell_nothing(segments: list[list[tuple[float, float]]]) -> None:
    assert theil_sen(segments) is None


@given(st.integers(1, 5000), st.floats(-10, 10))
def test_thinning_keeps_a_line(count: int, slope: float) -> None:
    points = thinned(line(slope, count))
    assert len(points) <= MOST_POINTS
    assert all(value == pytest.approx(slope * at, abs=1e-6) for at, value in points)
