"""The figures of a point, and what makes them doubtful."""

from __future__ import annotations

from typing import Any

from perf.load.figures import Point, figures_of, warnings_of
from perf.load.loops import ClientLoad

from .records import record

MS = 1_000_000
CLOSED = Point("concurrency", 2)
IDLE = ClientLoad([0.001], 0.2)


def some_figures(**client: Any) -> dict[str, Any]:
    records = [
        record(0, (100 * MS, 300 * MS), (1, 2)),
        record(0, (200 * MS, 250 * MS), (1, 1)),
        record(300 * MS, (400 * MS, 1000 * MS), (1, 1)),
    ]
    return figures_of(CLOSED, records, {"ttft": 150}, ClientLoad(**client) if client else IDLE)


def test_figures_of_a_closed_loop() -> None:
    figures = some_figures()
    assert figures["requests"] == figures["answered"] == 3
    assert figures["error_rate"] == 0
    assert figures["errors"] == {}
    assert round(figures["output_tokens_per_s"], 6) == 7
    assert figures["ttft_p50_ms"] == 100
    assert figures["ttft_p99_ms"] == 200
    assert figures["itl_p50_ms"] == 200
    assert figures["per_token_p50_ms"] == 100  # weights: 100 ms twice, 50 and 600 once
    assert figures["tpot_p99_ms"] == 600
    assert figures["e2e_mean_ms"] == (300 + 250 + 700) / 3
    assert round(figures["goodput_requests_per_s"], 6) == 2
    assert figures["tokens_per_event"] == 7 / 6
    assert figures["finish_reasons"] == {"stop": 3}
    assert warnings_of(figures) == []


def test_what_is_not_defined_is_none() -> None:
    failed = record(0, (), error="refused", ended_ns=5 * MS, finish_reason=None)
    figures = figures_of(CLOSED, [failed], {}, None)
    assert figures["error_rate"] == 1
    assert figures["errors"] == {"refused": 1}
    for name in ("ttft_p50_ms", "itl_mean_ms", "tokens_per_event", "steady_output_tokens_per_s", "client_cpu_cores"):
        assert figures[name] is None
    assert figures["goodput_requests_per_s"] is None
    assert figures["output_tokens_per_s"] == 0


def test_warnings() -> None:
    assert warnings_of(some_figures(lags_s=[0.05], cpu_cores=0.95)) == [
        "the client was late by 50 ms (P99): times are that much too long",
        "the client used 0.95 of the one core that it can: it may be the limit",
    ]
    records = [
        record(0, (100 * MS,), counting="one each", sent_ns=50 * MS),
        record(0, (), error="error event", ended_ns=MS),
    ]
    assert warnings_of(figures_of(Point("request_rate", 1), records, {}, IDLE)) == [
        "50.0% of the requests failed (1 error event); the other figures leave them out",
        "requests were sent 50 ms late (P99); latencies count from when they were due",
        "the server does not tell the tokens of each event; they are one each in 1 answers",
    ]


def test_points_have_titles() -> None:
    titles = [Point("concurrency", 8).title, Point("request_rate", 2.5).title, Point("trace", 1).title]
    assert titles == ["8 streams", "2.5 requests/s", "trace"]
