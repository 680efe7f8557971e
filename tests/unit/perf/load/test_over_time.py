from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf.load.over_time import MOST_SLICES, record_of, slice_seconds, slices, time_plots, time_unit
from perf.load.record import LoadRecord

MS, S = 10**6, 10**9


def record(sent_ns: int, *received_ns: int, error: str | None = None) -> LoadRecord:
    """With two tokens an event."""
    end_ns = received_ns[-1] if received_ns else sent_ns
    return LoadRecord(sent_ns, sent_ns, received_ns, (2,) * len(received_ns), end_ns, 1, "counted", error=error)


def test_tokens_count_where_they_came_and_answers_where_they_ended() -> None:
    found = slices([record(0, 400 * MS, error="timeout"), record(0, 500 * MS, 1500 * MS, 2500 * MS)], 0, 1)
    assert [(one.start_s, one.tokens_per_s, one.answered, one.errors) for one in found] == [
        (0, 4, 0, 1),
        (1, 2, 0, 0),
        (2, 2, 1, 0),
    ]
    assert (found[2].ttft_p50_ms, found[2].per_token_p50_ms) == (500, 500)
    assert found[1].ttft_p50_ms is None


@given(st.lists(st.tuples(st.integers(0, 50 * S), st.lists(st.integers(0, 50 * S), max_size=5)), max_size=8))
def test_nothing_is_lost(made: list[tuple[int, list[int]]]) -> None:
    records = [record(sent, *sorted(sent + gap for gap in gaps)) for sent, gaps in made]
    found = slices(sorted(records, key=lambda one: one.ended_ns), 0, 2)
    assert sum(one.tokens_per_s * 2 for one in found) == pytest.approx(sum(one.output_tokens for one in records))
    assert sum(one.answered + one.errors for one in found) == len(records)


@given(st.floats(0, 1e6))
def test_slices_are_few(duration_s: float) -> None:
    assert duration_s / slice_seconds(duration_s) <= max(MOST_SLICES, duration_s / 3600)


def test_plots_leave_out_what_is_not_known_and_tell_the_unit() -> None:
    found = slices([record(0, 1 * S), record(0, 700 * S, 701 * S)], 0, 10)
    tokens, ttft, _ = time_plots(found)
    assert (tokens.x_label, len(tokens.series[0].points)) == ("minutes from the start", 71)
    assert [x for x, _ in ttft.series[0].points] == [0, pytest.approx(700 / 60)]
    assert time_unit(7200) == ("hours", 3600)


def test_a_row_of_the_file_is_the_record() -> None:
    one = record(5, 7, 9)
    row: dict[str, Any] = json.loads(json.dumps({"front": "chat", **one._asdict()}))
    assert record_of(row) == one
