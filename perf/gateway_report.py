"""The figures of a gateway benchmark: medians over its rounds, ratios within them, tables. Runs on the load host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from perf import metrics
from perf.overhead_report import Turn, figures_of, over_streams
from perf.plots import Plot, Series
from perf.tables import Table


class Throughput(NamedTuple):
    """Medians over the rounds; `ratio` is gateway / direct within a round."""

    direct_tokens_per_s: float
    gateway_tokens_per_s: float
    ratio: float
    cpu_us_per_chunk: float


class ChunkCost(NamedTuple):
    """Of the gateway's process with the scripted engine, requests and everything else included; medians."""

    chunks_per_s: float
    tokens_per_chunk: float
    cpu_us_per_chunk: float
    cpu_us_per_token: float
    cores: float


class OpenStreams(NamedTuple):
    """Many slow streams at once: all complete, and what the gateway had resident before, at most and afterwards."""

    streams: int
    tokens_per_s: float
    rss_before_mib: float
    rss_peak_mib: float
    rss_after_mib: float
    cores: float


def throughputs(turns: Sequence[Turn]) -> dict[int, Throughput]:
    """By number of streams."""
    return {
        streams: _throughput([turn for turn in turns if turn.streams == streams])
        for streams in dict.fromkeys(turn.streams for turn in turns)
    }


def chunk_cost(turns: Sequence[Turn]) -> ChunkCost:
    """The medians of turns of the gateway."""
    costs = [_chunk_cost(turn) for turn in turns]
    return ChunkCost(*(metrics.median_of(values) for values in zip(*costs, strict=True)))


def gateway_cpu_s(turn: Turn) -> float:
    """CPU seconds of the gateway in a turn of its."""
    return metrics.cpu_s_within(turn.cpu_samples["gateway"], metrics.burst_window(turn.requests))


def cores(turn: Turn) -> float:
    """The share of one core that the gateway used in a turn of its."""
    window = metrics.burst_window(turn.requests)
    return metrics.ratio(gateway_cpu_s(turn) * metrics.NS_PER_S, window.end_ns - window.start_ns)


def summarize(turns: Sequence[Turn], cost: ChunkCost, many: OpenStreams | None) -> dict[str, Any]:
    """Every turn's figures and the medians, as JSON can hold them."""
    return {
        "turns": [figures_of(turn) for turn in turns],
        "medians": [{"streams": streams, **found._asdict()} for streams, found in throughputs(turns).items()],
        "chunk_cost": cost._asdict(),
        "open_streams": many._asdict() if many else None,
    }


def tables(turns: Sequence[Turn], cost: ChunkCost, many: OpenStreams | None) -> list[Table]:
    """What is shown to people."""
    against = ["streams", "direct tokens/s", "gateway tokens/s", "gateway / direct", "gateway CPU us/chunk"]
    one = ["chunks/s", "tokens/chunk", "CPU us/chunk", "CPU us/token", "cores"]
    at_once = ["streams", "tokens/s", "RSS MiB before", "RSS MiB at most", "RSS MiB after", "cores"]
    return [
        Table("Through the gateway", against, [[streams, *found] for streams, found in throughputs(turns).items()]),
        Table("CPU of the gateway, scripted engine", one, [list(cost)]),
        *([Table("Many slow streams, scripted engine", at_once, [list(many)])] if many else []),
    ]


def plots(turns: Sequence[Turn]) -> list[Plot]:
    """Both ways over the streams, and the gateway's CPU for a chunk."""
    found = throughputs(turns)

    def curve(name: str, figure: str) -> Series:
        return Series(name, [(streams, getattr(one, figure)) for streams, one in found.items()], name)

    rates = [curve("straight to Triton", "direct_tokens_per_s"), curve("through the gateway", "gateway_tokens_per_s")]
    return [
        over_streams("Throughput", "output tokens/s", rates),
        over_streams("CPU of the gateway", "CPU for a chunk, µs", [curve("gateway", "cpu_us_per_chunk")]),
    ]


def _throughput(turns: Sequence[Turn]) -> Throughput:
    direct = {turn.round: turn.tokens_per_s for turn in turns if turn.side == "direct"}
    gateway = {turn.round: turn for turn in turns if turn.side == "gateway"}
    return Throughput(
        direct_tokens_per_s=metrics.median_of(list(direct.values())),
        gateway_tokens_per_s=metrics.median_of([turn.tokens_per_s for turn in gateway.values()]),
        ratio=metrics.median_of([metrics.ratio(gateway[number].tokens_per_s, direct[number]) for number in direct]),
        cpu_us_per_chunk=metrics.median_of([_cpu_us_per_chunk(turn) for turn in gateway.values()]),
    )


def _chunk_cost(turn: Turn) -> ChunkCost:
    window = metrics.burst_window(turn.requests)
    num_chunks, num_tokens = metrics.chunks(turn.requests), metrics.tokens_within(turn.requests, window)
    return ChunkCost(
        chunks_per_s=metrics.ratio(num_chunks * metrics.NS_PER_S, window.end_ns - window.start_ns),
        tokens_per_chunk=metrics.ratio(num_tokens, num_chunks),
        cpu_us_per_chunk=_cpu_us_per_chunk(turn),
        cpu_us_per_token=metrics.ratio(gateway_cpu_s(turn) * 1e6, num_tokens),
        cores=cores(turn),
    )


def _cpu_us_per_chunk(turn: Turn) -> float:
    return metrics.cpu_us_per_chunk(gateway_cpu_s(turn), metrics.chunks(turn.requests))
