"""The formulas of a load test, one function each: records in, integers of nanoseconds or plain ratios out.

No clock and no I/O. What is undefined raises UndefinedError, or is left out of a list. Times count from `due_ns`: in an
open loop a request that was sent late because the client or the server was busy has waited since it was due
(coordinated omission); in a closed loop both are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from perf.load.record import LoadRecord
from perf.metrics import NS_PER_S, UndefinedError, ratio
from perf.records import Window

SLO_METRICS = ("ttft", "itl", "tpot", "e2e")


def is_answered(record: LoadRecord) -> bool:
    """Whether a request came to its end without an error, and had a token."""
    return record.error is None and bool(record.received_ns)


def answered(records: Iterable[LoadRecord]) -> list[LoadRecord]:
    """The requests that were answered; only these make figures, but for the error rate."""
    return [record for record in records if is_answered(record)]


def ttft_ns(record: LoadRecord) -> int:
    """Time to first token = first event with a token - due."""
    return record.received_ns[0] - record.due_ns


def e2e_ns(record: LoadRecord) -> int:
    """End-to-end latency = last event with a token - due."""
    return record.received_ns[-1] - record.due_ns


def itl_ns(record: LoadRecord) -> list[int]:
    """Inter-token latency as `vllm bench serve` has it: event - the event before it, however many tokens each brings.

    What a reader sees: how long the text stands still.
    """
    return [later - earlier for earlier, later in pairwise(record.received_ns)]


def per_token_ns(record: LoadRecord) -> list[tuple[float, int]]:
    """Per-token latency: for each event after the first (gap / its tokens, its tokens).

    Each token counts once, so that the sum over all tokens is E2E - TTFT however they are grouped into events.
    """
    return [(gap / count, count) for gap, count in zip(itl_ns(record), record.tokens[1:], strict=True)]


def tpot_ns(record: LoadRecord) -> float:
    """Time per output token = (E2E - TTFT) / (output tokens - tokens of the first event).

    With one token in the first event that is the usual divisor, output tokens - 1; with more, they came at once and
    took no time of their own. Raises UndefinedError for an answer of one event.
    """
    if len(record.received_ns) < 2:
        raise UndefinedError("TPOT: the answer came in one event")
    return (e2e_ns(record) - ttft_ns(record)) / (record.output_tokens - record.tokens[0])


def send_delay_ns(record: LoadRecord) -> int:
    """sent - due: what the client itself has held a request back."""
    return record.sent_ns - record.due_ns


def span(records: Sequence[LoadRecord]) -> Window:
    """From the first request's due time to the last end of any, failed ones included."""
    if not records:
        raise UndefinedError("span: no requests")
    return Window(min(record.due_ns for record in records) - 1, max(record.ended_ns for record in records))


def seconds_of(window: Window) -> float:
    """The window's length."""
    return (window.end_ns - window.start_ns) / NS_PER_S


def output_tokens_per_s(records: Sequence[LoadRecord], window: Window) -> float:
    """Output tokens received within the window by requests that were answered / its length."""
    received = sum(
        count
        for record in answered(records)
        for time_ns, count in zip(record.received_ns, record.tokens, strict=True)
        if window.holds(time_ns)
    )
    return ratio(received, seconds_of(window))


def requests_per_s(records: Sequence[LoadRecord], window: Window) -> float:
    """Requests answered within the window / its length."""
    return ratio(sum(window.holds(record.ended_ns) for record in answered(records)), seconds_of(window))


def steady_window(records: Sequence[LoadRecord], streams: int) -> Window:
    """For a closed loop: from the time when every stream had a token to the time when the last request was sent.

    start = latest first token of the `streams` requests sent first; end = latest time at which any was sent. Only
    within it are all streams busy.
    """
    by_start = sorted(records, key=lambda record: record.sent_ns)
    if len(by_start) <= streams:
        raise UndefinedError(f"steady window: {len(by_start)} requests are not more than {streams} streams")
    first = [record.received_ns[0] if record.received_ns else record.ended_ns for record in by_start[:streams]]
    start_ns, end_ns = max(first), by_start[-1].sent_ns
    if start_ns >= end_ns:
        raise UndefinedError("steady window: the last request was sent before every stream had a token")
    return Window(start_ns, end_ns)


def error_rate(records: Sequence[LoadRecord]) -> float:
    """Requests with an error, or without a token / all requests."""
    return ratio(len(records) - len(answered(records)), len(records))


def meets(record: LoadRecord, slo_ms: Mapping[str, float]) -> bool:
    """Whether an answer keeps every objective; `itl` is that of its longest gap.

    What an answer of one event does not have, it keeps.
    """
    measured: dict[str, float] = {"ttft": ttft_ns(record), "e2e": e2e_ns(record)}
    if len(record.received_ns) > 1:
        measured |= {"tpot": tpot_ns(record), "itl": max(itl_ns(record))}
    return all(measured[name] <= limit * 1e6 for name, limit in slo_ms.items() if name in measured)


def goodput(records: Sequence[LoadRecord], slo_ms: Mapping[str, float], window: Window) -> float:
    """Requests answered within the window that keep every objective / its length."""
    good = sum(window.holds(record.ended_ns) and meets(record, slo_ms) for record in answered(records))
    return ratio(good, seconds_of(window))


def weighted_percentile(values: Sequence[tuple[float, int]], percent: float) -> float:
    """The smallest value that at least `percent` % of the weight does not exceed (nearest rank). Weights are counts."""
    if not values:
        raise UndefinedError("percentile: no values")
    ordered = sorted(values)
    wanted = sum(weight for _, weight in ordered) * percent / 100
    reached = 0
    for value, weight in ordered:
        reached += weight
        if reached >= wanted:
            return value
    return ordered[-1][0]
