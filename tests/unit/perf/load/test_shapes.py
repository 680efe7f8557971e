from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf.load.shapes import SHAPES, users_at


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ("constant", [10, 10, 10, 10, 10, 10]),
        ("steps", [2, 4, 6, 8, 10, 10]),
        ("spike", [1, 1, 10, 10, 1, 1]),
    ],
)
def test_users_over_a_run(shape: str, wanted: list[int]) -> None:
    assert [users_at(shape, at, 10, 100, 5) for at in (0, 20, 40, 60, 80, 100)] == wanted


@given(st.sampled_from(SHAPES), st.floats(0, 1e4), st.integers(1, 500), st.floats(0.1, 1e4), st.integers(1, 20))
def test_users_are_never_none_nor_too_many(shape: str, at: float, users: int, run_time: float, steps: int) -> None:
    assert 1 <= users_at(shape, at, users, run_time, steps) <= users


@given(st.integers(1, 500), st.integers(1, 20))
def test_the_last_step_has_all_users(users: int, steps: int) -> None:
    assert users_at("steps", 99.999, users, 100, steps) == users
