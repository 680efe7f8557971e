from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf.load.record import LoadRecord
from perf.soak.run import ANSWERED, FAILED, LEFT, REFUSED, error_of, outcome_of, row_of, sample_of
from perf.soak.verdict import Sample, growths, problems
from tritone.errors import TritoneError


def samples(per_hour: float, count: int = 100, step_s: float = 60, segment: int = 0, at_s: float = 0) -> list[Sample]:
    """Of an engine whose memory grows."""
    times = [at_s + step_s * number for number in range(count)]
    return [Sample(segment, at, {("engine", "memory"): 100 + per_hour * at / 3600}) for at in times]


@pytest.mark.parametrize(("per_hour", "is_leak"), [(0, False), (15, False), (17, True), (-50, False)])
def test_growth_is_a_leak_above_its_limit(per_hour: float, is_leak: bool) -> None:
    (growth,) = growths(samples(per_hour), 0)
    assert growth.per_hour == pytest.approx(per_hour)
    assert growth.is_leak == is_leak


def test_growth_that_amounts_to_nothing_is_no_leak() -> None:
    (growth,) = growths(samples(100, step_s=1), 0)  # 2.75 MiB in all
    assert not growth.is_leak


def test_a_server_may_settle_in_every_segment() -> None:
    found = []
    for segment, start_s in enumerate((0.0, 6000.0)):
        rising = samples(5000, 10, segment=segment, at_s=start_s)
        flat = [Sample(segment, start_s + 600 + 60 * at, {("engine", "memory"): 900.0}) for at in range(50)]
        found += rising + flat
    (growth,) = growths(found, 600)
    assert (growth.per_hour, growth.is_leak) == (0, False)
    assert growths(found, 0)[0].per_hour >= 0


def test_problems_are_told() -> None:
    leak = growths(samples(360), 0)
    said = problems(leak, {"refused: HTTP 503": 2}, 0, 1)
    assert said == [
        "engine: memory grows by 360.0 MiB an hour (from 100.0 to 694.0), surely by more than 360.0",
        "2 requests failed: refused: HTTP 503",
        "no request was answered",
        "1 streams are still held after the load has ended",
    ]
    assert problems(growths(samples(0), 0), {}, 1, None) == []


def record(error: str | None, detail: str | None = None, tokens: int = 1) -> LoadRecord:
    return LoadRecord(1, 1, (2,) * tokens, (1,) * tokens, 3, 4, "counted", "stop", error, detail)


@pytest.mark.parametrize(
    ("found", "is_bad", "outcome"),
    [
        (record(None), False, ANSWERED),
        (record(None, tokens=0), False, FAILED),
        (record("left", tokens=0), False, LEFT),
        (record("refused", "HTTP 400: no"), False, FAILED),
        (record("refused", "HTTP 400: no"), True, REFUSED),
        (record("refused", "HTTP 503: busy"), True, FAILED),
        (record("refused", "max_tokens must be"), True, REFUSED),
        (record(None), True, FAILED),
        (record("error event", "oops"), True, FAILED),
        (record("broken off"), False, FAILED),
    ],
)
def test_every_request_has_one_outcome(found: LoadRecord, is_bad: bool, outcome: str) -> None:
    assert outcome_of(found, is_bad) == outcome


def test_kinds_of_failures() -> None:
    assert error_of(record("refused", "HTTP 503: busy"), False) == "refused: HTTP 503: busy"
    assert error_of(record(None), True) == "a bad request was not refused (answered)"


values = st.dictionaries(st.tuples(st.text(), st.sampled_from(["memory", "threads"])), st.floats(0, 1e6), max_size=4)


@given(values, st.integers(0, 9), st.floats(0, 1e6))
def test_a_sample_is_read_as_it_was_written(held: dict[tuple[str, str], float], segment: int, at_s: float) -> None:
    sample = Sample(segment, at_s, held)
    assert sample_of(row_of(sample)) == sample


def test_a_line_that_is_no_sample() -> None:
    with pytest.raises(TritoneError, match=r"samples\.jsonl"):
        sample_of({"segment": 1})
