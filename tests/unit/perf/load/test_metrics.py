"""Each formula against figures computed by hand, in exact nanoseconds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf.load import metrics
from perf.metrics import NS_PER_S, UndefinedError
from perf.records import Window

from .records import record

S = NS_PER_S


def test_latencies_count_from_when_the_request_was_due() -> None:
    late = record(100, (500, 700), sent_ns=300)
    assert metrics.ttft_ns(late) == 400
    assert metrics.e2e_ns(late) == 600
    assert metrics.send_delay_ns(late) == 200


def test_events_of_several_tokens() -> None:
    answer = record(0, (100, 200, 500), (2, 1, 4))
    assert metrics.itl_ns(answer) == [100, 300]
    assert metrics.per_token_ns(answer) == [(100.0, 1), (75.0, 4)]
    assert metrics.tpot_ns(answer) == 400 / 5


def test_tpot_with_one_token_an_event_is_the_usual_one() -> None:
    assert metrics.tpot_ns(record(0, (100, 150, 250))) == (250 - 100) / (3 - 1)


def test_tpot_of_one_event_is_undefined() -> None:
    with pytest.raises(UndefinedError, match="TPOT: the answer came in one event"):
        metrics.tpot_ns(record(0, (100,), (5,)))


@given(
    st.lists(
        st.tuples(st.integers(1, 10**9), st.integers(1, 20)),
        min_size=2,
        max_size=30,
    )
)
def test_per_token_latencies_sum_up_to_the_time_after_the_first_token(events: list[tuple[int, int]]) -> None:
    times, time = [], 0
    for gap, _ in events:
        time += gap
        times.append(time)
    answer = record(0, tuple(times), tuple(tokens for _, tokens in events))
    total = sum(value * count for value, count in metrics.per_token_ns(answer))
    assert total == pytest.approx(metrics.e2e_ns(answer) - metrics.ttft_ns(answer))
    assert sum(count for _, count in metrics.per_token_ns(answer)) == answer.output_tokens - answer.tokens[0]


def test_rates_leave_failed_requests_out() -> None:
    good = record(0, (1 * S, 2 * S), (3, 4), ended_ns=2 * S)
    failed = record(0, (1 * S,), (50,), error="broken off", ended_ns=4 * S)
    nothing = record(0, (), (), ended_ns=1 * S)
    records = [good, failed, nothing]
    window = metrics.span(records)
    assert window == Window(-1, 4 * S)
    assert metrics.output_tokens_per_s(records, window) == pytest.approx(7 / 4)
    assert metrics.requests_per_s(records, window) == pytest.approx(1 / 4)
    assert metrics.error_rate(records) == pytest.approx(2 / 3)


def test_steady_window() -> None:
    records = [
        record(0, (10, 30)),
        record(0, (20, 40), sent_ns=1),
        record(30, (45, 90), sent_ns=30),
        record(40, (60, 95), sent_ns=40),
    ]
    assert metrics.steady_window(records, 2) == Window(20, 40)
    with pytest.raises(UndefinedError, match="4 requests are not more than 4 streams"):
        metrics.steady_window(records, 4)
    with pytest.raises(UndefinedError, match="before every stream had a token"):
        metrics.steady_window(records, 3)


@pytest.mark.parametrize(
    ("slo_ms", "keeps"),
    [
        ({}, True),
        ({"ttft": 100}, True),
        ({"ttft": 99.9}, False),
        ({"itl": 300}, True),
        ({"itl": 299}, False),
        ({"tpot": 200}, True),
        ({"tpot": 199}, False),
        ({"e2e": 500}, True),
        ({"e2e": 499, "ttft": 100}, False),
    ],
)
def test_objectives(slo_ms: dict[str, float], keeps: bool) -> None:
    ms = 10**6
    assert metrics.meets(record(0, (100 * ms, 200 * ms, 500 * ms)), slo_ms) is keeps


def test_an_answer_of_one_event_keeps_what_it_does_not_have() -> None:
    assert metrics.meets(record(0, (10,)), {"itl": 0.000001, "tpot": 0.000001})


def test_goodput_counts_answered_requests_that_keep_all() -> None:
    good = record(0, (S // 10, S))
    slow = record(0, (S, 2 * S))
    failed = record(0, (S // 10, S), error="no end")
    records = [good, slow, failed]
    assert metrics.goodput(records, {"ttft": 200}, Window(0, 2 * S)) == 0.5


def test_weighted_percentile_is_a_nearest_rank() -> None:
    values = [(30.0, 1), (10.0, 8), (20.0, 1)]
    assert metrics.weighted_percentile(values, 80) == 10
    assert metrics.weighted_percentile(values, 81) == 20
    assert metrics.weighted_percentile(values, 99) == 30
    with pytest.raises(UndefinedError):
        metrics.weighted_percentile([], 50)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=50), st.sampled_from([1, 50, 90, 95, 99, 100]))
def test_weighted_percentile_of_single_weights_is_the_plain_one(values: list[int], percent: int) -> None:
    from perf.metrics import percentile

    assert metrics.weighted_percentile([(float(value), 1) for value in values], percent) == percentile(values, percent)
