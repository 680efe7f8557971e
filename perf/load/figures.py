"""The figures of one measured point, from its records: what summary.json, tables and plots show.

Runs on the load host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from perf import metrics as base
from perf.load import metrics
from perf.load.loops import ClientLoad
from perf.load.record import LoadRecord
from perf.metrics import UndefinedError

MS_PER_NS = 1e-6
PERCENTILES = (50, 90, 95, 99)

SATURATED_LAG_MS = 20.0
SATURATED_CORES = 0.9
LATE_SEND_MS = 20.0


class Point(NamedTuple):
    """One load: `concurrency` streams in a closed loop, `request_rate` requests/s in an open one, a `trace`, or `users`
    of locust, whose number may change."""

    kind: str
    value: float

    @property
    def title(self) -> str:
        """For people: "32 streams", "8 requests/s", "trace", "8 users"."""
        if self.kind == "trace":
            return "trace"
        units = {"concurrency": "streams", "request_rate": "requests/s", "users": "users"}
        return f"{self.value:g} {units[self.kind]}"


def figures_of(
    point: Point, records: Sequence[LoadRecord], slo_ms: Mapping[str, float], client: ClientLoad | None
) -> dict[str, Any]:
    """Every figure by name with its unit; None where it is not defined."""
    window = metrics.span(records)
    answered = metrics.answered(records)
    figures: dict[str, Any] = {
        "requests": len(records),
        "answered": len(answered),
        "error_rate": metrics.error_rate(records),
        "errors": dict(Counter(record.error or "no token" for record in records if not metrics.is_answered(record))),
        "finish_reasons": dict(Counter(record.finish_reason or "not told" for record in answered)),
        "counting": dict(Counter(record.counting for record in answered)),
        "duration_s": metrics.seconds_of(window),
        "output_tokens_per_s": metrics.output_tokens_per_s(records, window),
        "steady_output_tokens_per_s": _defined(
            lambda: metrics.output_tokens_per_s(records, metrics.steady_window(records, int(point.value)))
        )
        if point.kind == "concurrency"
        else None,
        "requests_per_s": metrics.requests_per_s(records, window),
        "goodput_requests_per_s": metrics.goodput(records, slo_ms, window) if slo_ms else None,
        "prompt_tokens_mean": _mean([one.prompt_tokens for one in answered if one.prompt_tokens is not None]),
        "output_tokens_mean": _mean([one.output_tokens for one in answered]),
        "tokens_per_event": _defined(
            lambda: base.ratio(sum(one.output_tokens for one in answered), sum(len(one.tokens) for one in answered))
        ),
        **_latencies(answered),
    }
    figures |= _client_figures(records, client)
    return figures


def warnings_of(figures: Mapping[str, Any]) -> list[str]:
    """What makes the figures of a point doubtful, in sentences."""
    found = []
    if figures["error_rate"] > 0:
        kinds = ", ".join(f"{count} {kind}" for kind, count in figures["errors"].items())
        found.append(f"{figures['error_rate']:.1%} of the requests failed ({kinds}); the other figures leave them out")
    if (figures["client_lag_p99_ms"] or 0) > SATURATED_LAG_MS:
        found.append(
            f"the client was late by {figures['client_lag_p99_ms']:.0f} ms (P99): times are that much too long"
        )
    if (figures["client_cpu_cores"] or 0) > SATURATED_CORES:
        found.append(
            f"the client used {figures['client_cpu_cores']:.2f} of the one core that it can: it may be the limit"
        )
    if (figures["send_delay_p99_ms"] or 0) > LATE_SEND_MS:
        found.append(
            f"requests were sent {figures['send_delay_p99_ms']:.0f} ms late (P99); "
            "latencies count from when they were due"
        )
    if set(figures["counting"]) - {"counted"}:
        ways = ", ".join(f"{way} in {count}" for way, count in figures["counting"].items())
        found.append(f"the server does not tell the tokens of each event; they are {ways} answers")
    return found


def _latencies(answered: Sequence[LoadRecord]) -> dict[str, Any]:
    events = [one for one in answered if len(one.received_ns) > 1]
    single = {
        "ttft": [(float(metrics.ttft_ns(one)), 1) for one in answered],
        "itl": [(float(gap), 1) for one in answered for gap in metrics.itl_ns(one)],
        "per_token": [pair for one in answered for pair in metrics.per_token_ns(one)],
        "tpot": [(metrics.tpot_ns(one), 1) for one in events],
        "e2e": [(float(metrics.e2e_ns(one)), 1) for one in answered],
    }
    figures: dict[str, Any] = {}
    for name, values in single.items():
        weight = sum(count for _, count in values)
        figures[f"{name}_mean_ms"] = (
            sum(value * count for value, count in values) / weight * MS_PER_NS if weight else None
        )
        for percent in PERCENTILES:
            figures[f"{name}_p{percent}_ms"] = _percentile_ms(values, percent)
    return figures


def _client_figures(records: Sequence[LoadRecord], client: ClientLoad | None) -> dict[str, Any]:
    delays = [(float(metrics.send_delay_ns(record)), 1) for record in records]
    lags = [(lag_s * base.NS_PER_S, 1) for lag_s in client.lags_s] if client else []
    return {
        "send_delay_p99_ms": _percentile_ms(delays, 99),
        "client_lag_p99_ms": _percentile_ms(lags, 99),
        "client_cpu_cores": client.cpu_cores if client else None,
    }


def _percentile_ms(values: Sequence[tuple[float, int]], percent: float) -> float | None:
    return metrics.weighted_percentile(values, percent) * MS_PER_NS if values else None


def _mean(values: Sequence[int]) -> float | None:
    return sum(values) / len(values) if values else None


def _defined(figure: Callable[[], float]) -> float | None:
    try:
        return figure()
    except UndefinedError:
        return None
