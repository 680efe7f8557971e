"""The tables and plots of a load test, of one side or of several next to each other. Runs on the load host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perf.load import metrics
from perf.load.figures import MS_PER_NS, Point
from perf.load.record import LoadRecord
from perf.plots import Plot, Series
from perf.tables import Table

Measurement = tuple[Point, Sequence[LoadRecord], Mapping[str, Any]]
Sides = Mapping[str, Sequence[Measurement]]
"""The points of each side, by its name."""

X_LABELS = {"concurrency": "streams at once", "request_rate": "requests/s offered", "trace": "trace", "users": "users"}
MOST_DISTRIBUTION_POINTS = 200

NOTES = (
    "TTFT: first event with a token - the time the request was due. In an open loop that is its place in the schedule, "
    "not the time it was sent (coordinated omission).",
    "ITL: an event with tokens - the one before it, of the same answer, whatever number of tokens each brings; as in "
    "`vllm bench serve`.",
    "Per-token latency: that gap / the tokens of the later event, counted once for each of them.",
    "TPOT: (E2E - TTFT) / (output tokens - tokens of the first event), a figure for each answer.",
    "E2E: last event with a token - the time the request was due.",
    "tokens/s, requests/s, goodput: of answered requests / (last end - first due). Steady tokens/s: within the time in "
    "which all streams of a closed loop are busy.",
    "A request with an error, an error event within its stream included, counts as an error and makes no other figure.",
    "Percentiles are nearest ranks of raw samples: no averages of percentiles.",
)


def load_tables(sides: Sides, slo_ms: Mapping[str, float]) -> list[Table]:
    """What is shown to people; the server's side only where it was watched."""
    several = len(sides) > 1
    rows = [(side, point, figures) for side, points in sides.items() for point, _, figures in points]
    shown = [
        _table(
            "Throughput", THROUGHPUT if slo_ms else {k: v for k, v in THROUGHPUT.items() if k != GOODPUT}, rows, several
        ),
        _table("Latency, ms", LATENCY, rows, several),
    ]
    watched = {
        heading: name for heading, name in SERVER.items() if any(figures.get(name) is not None for *_, figures in rows)
    }
    if watched:
        shown.append(_table("Server", watched, rows, several))
    shown.append(_table("Client", CLIENT, rows, several))
    return shown


GOODPUT = "goodput requests/s"
THROUGHPUT = {
    "tokens/s": "output_tokens_per_s",
    "steady tokens/s": "steady_output_tokens_per_s",
    "requests/s": "requests_per_s",
    GOODPUT: "goodput_requests_per_s",
    "answered": "answered",
    "errors %": "error_percent",
    "prompt tokens": "prompt_tokens_mean",
    "answer tokens": "output_tokens_mean",
}
LATENCY = {
    f"{title} P{percent}": f"{name}_p{percent}_ms"
    for title, name in (("TTFT", "ttft"), ("ITL", "itl"), ("per token", "per_token"), ("TPOT", "tpot"), ("E2E", "e2e"))
    for percent in (50, 90, 99)
}
SERVER = {
    "CPU s": "server_cpu_s",
    "peak RSS MiB": "server_peak_rss_mib",
    "queue mean ms": "queue_mean_ms",
    "GPU %": "gpu_percent",
    "GPU memory MiB": "gpu_peak_memory_mib",
}
CLIENT = {
    "tokens/event": "tokens_per_event",
    "event loop late P99 ms": "client_lag_p99_ms",
    "CPU cores": "client_cpu_cores",
    "sent late P99 ms": "send_delay_p99_ms",
}


def _table(title: str, columns: Mapping[str, str], rows: Sequence[Any], has_sides: bool) -> Table:
    head = [*(["side"] if has_sides else []), "load", *columns]
    cells = [
        [*([side] if has_sides else []), point.title, *(_cell(figures, name) for name in columns.values())]
        for side, point, figures in rows
    ]
    return Table(title, head, cells)


def _cell(figures: Mapping[str, Any], name: str) -> Any:
    if name == "error_percent":
        return figures["error_rate"] * 100
    return figures.get(name)


def load_plots(sides: Sides, slo_ms: Mapping[str, float]) -> list[Plot]:
    """Curves over the loads where there are several, and distributions at the heaviest."""
    points = [point for measured in sides.values() for point, *_ in measured]
    plots: list[Plot] = []
    if len(set(points)) > 1:
        plots += _curves(sides, points, slo_ms)
    heaviest = max(points, key=lambda point: point.value)
    plots += [
        _distribution("Time to first token", "TTFT, ms", sides, heaviest, "ttft"),
        _distribution("Inter-token latency", "gap between events with tokens, ms", sides, heaviest, "itl"),
    ]
    return plots


def _curves(sides: Sides, points: Sequence[Point], slo_ms: Mapping[str, float]) -> list[Plot]:
    x_label = X_LABELS[points[0].kind]
    values = sorted({point.value for point in points})
    has_log_x = values[0] > 0 and values[-1] / values[0] >= 8

    def curve(title: str, y_label: str, names: Mapping[str, str]) -> Plot:
        series = []
        for side, measured in sides.items():
            for place, (suffix, name) in enumerate(names.items()):
                found = [(point.value, figures[name]) for point, _, figures in measured if figures[name] is not None]
                label = " ".join(part for part in (side if len(sides) > 1 else "", suffix) if part)
                series.append(Series(label or side, sorted(found), side, is_dashed=place > 0))
        return Plot(title, x_label, y_label, series, has_log_x, ticks=values)

    curves = [
        curve("Throughput", "output tokens/s", {"": "output_tokens_per_s"}),
        curve("Time to first token", "TTFT, ms", {"P50": "ttft_p50_ms", "P99": "ttft_p99_ms"}),
        curve("Inter-token latency", "ITL, ms", {"P50": "itl_p50_ms", "P99": "itl_p99_ms"}),
        curve("End-to-end latency", "E2E, ms", {"P50": "e2e_p50_ms", "P99": "e2e_p99_ms"}),
        _trade(sides),
    ]
    if slo_ms:
        kept = ", ".join(f"{name.upper()} ≤ {limit:g} ms" for name, limit in slo_ms.items())
        curves.append(curve(f"Goodput ({kept})", "requests/s", {"": "goodput_requests_per_s"}))
    return curves


def _trade(sides: Sides) -> Plot:
    """What a user gets for what the server delivers."""
    series = [
        Series(
            side,
            [
                (figures["output_tokens_per_s"], figures["tpot_p50_ms"])
                for _, _, figures in measured
                if figures["tpot_p50_ms"] is not None
            ],
            side,
        )
        for side, measured in sides.items()
    ]
    return Plot("Speed of one answer against throughput", "output tokens/s, all streams", "TPOT P50, ms", series)


def _distribution(title: str, x_label: str, sides: Sides, point: Point, metric: str) -> Plot:
    series = []
    for side, measured in sides.items():
        answered = [one for found, records, _ in measured if found == point for one in metrics.answered(records)]
        values = (
            [metrics.ttft_ns(one) for one in answered]
            if metric == "ttft"
            else [gap for one in answered for gap in metrics.itl_ns(one)]
        )
        if values:
            series.append(Series(side, shares(values), side))
    return Plot(f"{title} at {point.title}", x_label, "share of samples, %", series, is_step=True)


def shares(values_ns: Sequence[int]) -> list[tuple[float, float]]:
    """(milliseconds, % of the values up to it) of about MOST_DISTRIBUTION_POINTS values, the greatest included."""
    ordered = sorted(values_ns)
    step = max(1, len(ordered) // MOST_DISTRIBUTION_POINTS)
    places = sorted({*range(0, len(ordered), step), len(ordered) - 1})
    return [(ordered[place] * MS_PER_NS, (place + 1) / len(ordered) * 100) for place in places]
