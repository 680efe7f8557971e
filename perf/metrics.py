"""The formulas, one function each: integers of nanoseconds in, no clock and no I/O. Run on the load host.

What is undefined raises UndefinedError: a figure that is 0 or NaN because nothing was measured looks like a result.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from statistics import median

from perf.records import CpuSample, Emission, RequestRecord, Window
from tritone.errors import TritoneError

NS_PER_S = 1_000_000_000


class UndefinedError(TritoneError):
    """The samples do not define the figure. The message says what is missing."""


def steady_window(requests: Sequence[RequestRecord], streams: int) -> Window:
    """The time in which all streams were busy, of clients that each send their next request after the last response.

    start = latest first response of the `streams` requests sent first; end = time at which the last request was sent.
    Until then every stream had a request to go on with, so starting and ending requests is part of what is measured.
    """
    by_start = sorted(requests)
    if len(by_start) <= streams:
        raise UndefinedError(f"steady window: {len(by_start)} requests are not more than {streams} streams")
    start_ns = max(request.received_ns[0] for request in by_start[:streams])
    end_ns = by_start[-1].started_ns
    if start_ns >= end_ns:
        raise UndefinedError("steady window: the last request was sent before every stream had a token; send more")
    return Window(start_ns, end_ns)


def tokens_within(requests: Iterable[RequestRecord], window: Window) -> int:
    """sum of the tokens of all responses received within the window."""
    return sum(
        count
        for request in requests
        for time_ns, count in zip(request.received_ns, request.tokens, strict=True)
        if window.holds(time_ns)
    )


def tokens_per_s(requests: Iterable[RequestRecord], window: Window) -> float:
    """tokens within the window / its length."""
    return tokens_within(requests, window) * NS_PER_S / _length_ns(window)


def delivered_share(delivered_tokens_per_s: float, streams: int, rate: float) -> float:
    """delivered tokens/s / (streams * tokens/s that the engine makes for each)."""
    return ratio(delivered_tokens_per_s, streams * rate)


def burst_window(requests: Sequence[RequestRecord]) -> Window:
    """From the start of the first request to the last response of any. For requests sent all at once."""
    if not requests:
        raise UndefinedError("burst: no requests")
    start_ns = min(request.started_ns for request in requests)
    return Window(start_ns, max(request.received_ns[-1] for request in requests))


def burst_tokens_per_s(requests: Sequence[RequestRecord]) -> float:
    """all tokens / the burst's window."""
    return tokens_per_s(requests, burst_window(requests))


def tokens_per_chunk(requests: Iterable[RequestRecord], window: Window) -> float:
    """tokens within the window / responses within it that bring any."""
    held = list(requests)
    chunks = sum(
        bool(count) and window.holds(time_ns)
        for request in held
        for time_ns, count in zip(request.received_ns, request.tokens, strict=True)
    )
    return ratio(tokens_within(held, window), chunks)


def with_tokens(request: RequestRecord) -> RequestRecord:
    """The request without the responses that bring no token, as the one that shows a waiting client to be there."""
    brought = [(time_ns, count) for time_ns, count in zip(request.received_ns, request.tokens, strict=True) if count]
    received_ns, tokens = zip(*brought, strict=True) if brought else ((), ())
    return request._replace(received_ns=received_ns, tokens=tokens)


def first_token_ns(requests: Iterable[RequestRecord], window: Window) -> list[int]:
    """TTFT: first response - start, of each request started within the window."""
    return [request.received_ns[0] - request.started_ns for request in requests if window.holds(request.started_ns)]


def chunk_gaps_ns(requests: Iterable[RequestRecord], window: Window) -> list[int]:
    """Inter-chunk latency: response - the one before it, of the same request, both within the window."""
    return [
        later - earlier
        for request in requests
        for earlier, later in pairwise(request.received_ns)
        if window.holds(earlier) and window.holds(later)
    ]


def added_ns(emissions: Sequence[Emission], request: RequestRecord) -> list[int]:
    """For each token of the request: first response that has it - first emission that has it. One clock for both."""
    received = list(accumulate(request.tokens))
    made = [emission.ids_made for emission in emissions]
    if not received or not made or made[-1] < received[-1]:
        raise UndefinedError("added ns: the engine's trace does not hold every token that was received")
    return [
        request.received_ns[bisect_left(received, token)] - emissions[bisect_left(made, token)].time_ns
        for token in range(1, received[-1] + 1)
    ]


def cpu_s_within(samples: Sequence[CpuSample], window: Window) -> float:
    """CPU seconds at the window's end - at its start, each interpolated between the two samples around it."""
    return _cpu_s_at(samples, window.end_ns) - _cpu_s_at(samples, window.start_ns)


def cpu_s_per_1000_tokens(cpu_s: float, tokens: int) -> float:
    """CPU seconds * 1000 / tokens."""
    return ratio(cpu_s * 1000, tokens)


def chunks(requests: Iterable[RequestRecord]) -> int:
    """sum of the responses of all requests."""
    return sum(len(request.received_ns) for request in requests)


def cpu_us_per_chunk(cpu_s: float, chunks: int) -> float:
    """CPU seconds * 1,000,000 / chunks."""
    return ratio(cpu_s * 1e6, chunks)


def percentile(values: Sequence[int], percent: int) -> int:
    """The smallest of the values that at least `percent` % of them do not exceed (nearest rank)."""
    if not values:
        raise UndefinedError("percentile: no values")
    if not 0 < percent <= 100:
        raise UndefinedError(f"percentile: expected more than 0 and at most 100, got {percent}")
    rank = -(-len(values) * percent // 100)  # rounded up
    return sorted(values)[rank - 1]


def median_of(values: Sequence[float]) -> float:
    """The middle one of the rounds, or the mean of the two in the middle."""
    if not values:
        raise UndefinedError("median: no values")
    return median(values)


def ratio(part: float, whole: float) -> float:
    """part / whole."""
    if whole <= 0:
        raise UndefinedError(f"ratio: divided by {whole:g}")
    return part / whole


def _length_ns(window: Window) -> int:
    if window.end_ns <= window.start_ns:
        raise UndefinedError("tokens/s: the window is empty")
    return window.end_ns - window.start_ns


def _cpu_s_at(samples: Sequence[CpuSample], time_ns: int) -> float:
    place = bisect_left(samples, time_ns, key=lambda sample: sample.time_ns)
    if place == len(samples) or (place == 0 and samples[0].time_ns != time_ns):
        raise UndefinedError("CPU seconds: the window is not covered by samples")
    after = samples[place]
    before = samples[max(place - 1, 0)]
    if after.time_ns == before.time_ns:
        return after.cpu_s
    share = (time_ns - before.time_ns) / (after.time_ns - before.time_ns)
    return before.cpu_s + share * (after.cpu_s - before.cpu_s)
