"""One formula, one test: exact integers of nanoseconds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf import metrics
from perf.metrics import UndefinedError
from perf.records import CpuSample, Emission, RequestRecord, Window

S = metrics.NS_PER_S

# Two streams: the first wave starts at 0 and 10, the last request at 500.
REQUESTS = [
    RequestRecord(0, (100, 200, 300), (1, 2, 3)),
    RequestRecord(10, (150, 400), (4, 1)),
    RequestRecord(310, (390, 600), (2, 2)),
    RequestRecord(500, (580, 700), (5, 1)),
]
WINDOW = Window(150, 500)


def test_steady_window_is_from_the_last_stream_s_first_token_to_the_last_start() -> None:
    assert metrics.steady_window(REQUESTS, 2) == WINDOW
    assert metrics.steady_window(REQUESTS[::-1], 2) == WINDOW


def test_steady_window_needs_more_requests_than_streams() -> None:
    with pytest.raises(UndefinedError, match="4 requests are not more than 4 streams"):
        metrics.steady_window(REQUESTS, 4)


def test_steady_window_is_undefined_when_requests_ran_out_before_all_streams_were_busy() -> None:
    with pytest.raises(UndefinedError, match="before every stream had a token"):
        metrics.steady_window([RequestRecord(0, (900,), (1,)), RequestRecord(10, (20,), (1,))], 1)


def test_responses_that_bring_no_token_are_left_out() -> None:
    request = RequestRecord(5, (10, 20, 30, 40), (0, 2, 0, 1))
    assert metrics.with_tokens(request) == RequestRecord(5, (20, 40), (2, 1))
    assert metrics.with_tokens(RequestRecord(5, (10,), (0,))) == RequestRecord(5, (), ())


def test_window_leaves_its_start_out_and_takes_its_end_in() -> None:
    assert [WINDOW.holds(time_ns) for time_ns in (149, 150, 151, 500, 501)] == [False, False, True, True, False]


def test_tokens_within() -> None:
    assert metrics.tokens_within(REQUESTS, WINDOW) == 2 + 3 + 1 + 2


def test_tokens_per_s() -> None:
    assert metrics.tokens_per_s(REQUESTS, WINDOW) == 8 * S / 350


def test_delivered_share() -> None:
    assert metrics.delivered_share(29_800, 64, 500.0) == 0.93125
    with pytest.raises(UndefinedError):
        metrics.delivered_share(1, 64, 0)


def test_burst_tokens_per_s_is_from_the_first_start_to_the_last_token() -> None:
    assert metrics.burst_tokens_per_s(REQUESTS) == 21 * S / 700
    with pytest.raises(UndefinedError):
        metrics.burst_tokens_per_s([])


def test_tokens_per_chunk_leaves_out_responses_without_tokens() -> None:
    requests = [RequestRecord(0, (10, 20, 30), (3, 0, 4))]
    assert metrics.tokens_per_chunk(requests, Window(0, 30)) == 3.5
    with pytest.raises(UndefinedError):
        metrics.tokens_per_chunk(requests, Window(15, 25))


def test_first_token_ns_is_of_requests_started_within() -> None:
    assert metrics.first_token_ns(REQUESTS, WINDOW) == [80, 80]


def test_chunk_gaps_ns_are_those_within() -> None:
    assert metrics.chunk_gaps_ns(REQUESTS, WINDOW) == [100]
    assert metrics.chunk_gaps_ns(REQUESTS, Window(0, 700)) == [100, 100, 250, 210, 120]


def test_added_ns_is_by_token() -> None:
    emissions = [Emission(1, 1000), Emission(3, 2000), Emission(4, 3000)]
    request = RequestRecord(0, (1500, 2700, 3300), (1, 1, 2))
    assert metrics.added_ns(emissions, request) == [500, 700, 1300, 300]


def test_added_ns_of_tokens_that_rode_together() -> None:
    emissions = [Emission(1, 1000), Emission(2, 2000)]
    assert metrics.added_ns(emissions, RequestRecord(0, (2500,), (2,))) == [1500, 500]


@pytest.mark.parametrize("emissions", [[], [Emission(1, 10)]])
def test_added_ns_needs_every_token_in_the_trace(emissions: list[Emission]) -> None:
    with pytest.raises(UndefinedError, match="every token"):
        metrics.added_ns(emissions, RequestRecord(0, (20,), (2,)))


SAMPLES = [CpuSample(100, 1.0), CpuSample(200, 2.0), CpuSample(400, 6.0)]


def test_cpu_s_within_is_interpolated() -> None:
    assert metrics.cpu_s_within(SAMPLES, Window(150, 300)) == 4.0 - 1.5
    assert metrics.cpu_s_within(SAMPLES, Window(100, 400)) == 5.0


@pytest.mark.parametrize("window", [Window(99, 300), Window(150, 401)])
def test_cpu_s_within_needs_samples_around_the_window(window: Window) -> None:
    with pytest.raises(UndefinedError, match="not covered"):
        metrics.cpu_s_within(SAMPLES, window)


def test_cpu_s_per_1000_tokens() -> None:
    assert metrics.cpu_s_per_1000_tokens(1.5, 6000) == 0.25
    with pytest.raises(UndefinedError):
        metrics.cpu_s_per_1000_tokens(1.5, 0)


def test_percentile_is_the_nearest_rank() -> None:
    values = [15, 20, 35, 40, 50]
    assert [metrics.percentile(values, percent) for percent in (5, 30, 40, 50, 100)] == [15, 20, 20, 35, 50]
    assert metrics.percentile(range(1, 1001), 99) == 990


@given(st.lists(st.integers(0, 100), min_size=1), st.integers(1, 100))
def test_percentile_is_the_smallest_that_enough_do_not_exceed(values: list[int], percent: int) -> None:
    found = metrics.percentile(values, percent)
    assert found in values
    assert 100 * sum(value <= found for value in values) >= percent * len(values)
    assert 100 * sum(value < found for value in values) < percent * len(values)


@pytest.mark.parametrize(("values", "percent"), [([], 50), ([1], 0), ([1], 101)])
def test_percentile_of_nothing_is_undefined(values: list[int], percent: int) -> None:
    with pytest.raises(UndefinedError):
        metrics.percentile(values, percent)


def test_median_of() -> None:
    assert metrics.median_of([3.0, 1.0, 2.0]) == 2.0
    assert metrics.median_of([4.0, 1.0, 2.0, 3.0]) == 2.5
    with pytest.raises(UndefinedError):
        metrics.median_of([])


def test_cpu_for_a_chunk() -> None:
    assert metrics.chunks(REQUESTS) == sum(len(request.received_ns) for request in REQUESTS)
    assert metrics.cpu_us_per_chunk(0.0005, 5) == 100.0
    with pytest.raises(metrics.UndefinedError):
        metrics.cpu_us_per_chunk(0.0005, 0)
