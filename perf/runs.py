"""What a pipeline benchmark varies, what it keeps, and what a run gives. Runs on the load host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from perf import metrics
from perf.processes import Memory
from perf.records import CpuSample, RequestRecord, Window

MS_PER_NS = 1e-6


class Point(NamedTuple):
    """How many streams run at once, and the tokens/s that the scripted engine makes for each."""

    streams: int
    rate: float


@dataclass(frozen=True)
class Workload:
    """What all runs of a comparison have in common. `tokens` is the mean length of an answer."""

    prompt: str
    tokens: int
    seconds: float
    seed: int


class Measured(NamedTuple):
    """The raw samples of a run and the figures they give, each named with its unit."""

    requests: Sequence[RequestRecord]
    cpu_samples: Mapping[str, Sequence[CpuSample]]
    figures: dict[str, float]
    memory: dict[str, Memory]


class Run(NamedTuple):
    """One measured run of one side; `load_average` is the machine's just before it."""

    side: str
    point: Point
    round: int
    load_average: float
    measured: Measured


def flow_figures(requests: Sequence[RequestRecord], window: Window, point: Point) -> dict[str, float]:
    """How much was delivered in the window, in which pieces, and how soon."""
    delivered = metrics.tokens_per_s(requests, window)
    first, gaps = metrics.first_token_ns(requests, window), metrics.chunk_gaps_ns(requests, window)
    return {
        "window_s": (window.end_ns - window.start_ns) / metrics.NS_PER_S,
        "tokens_per_s": delivered,
        "delivered_share": metrics.delivered_share(delivered, point.streams, point.rate),
        "tokens_per_chunk": metrics.tokens_per_chunk(requests, window),
        "ttft_p50_ms": metrics.percentile(first, 50) * MS_PER_NS,
        "ttft_p99_ms": metrics.percentile(first, 99) * MS_PER_NS,
        "chunk_gap_p50_ms": metrics.percentile(gaps, 50) * MS_PER_NS,
        "chunk_gap_p99_ms": metrics.percentile(gaps, 99) * MS_PER_NS,
    }


def cpu_figures(samples: Mapping[str, Sequence[CpuSample]], window: Window, tokens: int) -> dict[str, float]:
    """CPU seconds for 1,000 tokens of each process."""
    return {
        f"cpu_s_per_1000_tokens_{name}": metrics.cpu_s_per_1000_tokens(metrics.cpu_s_within(found, window), tokens)
        for name, found in samples.items()
    }
