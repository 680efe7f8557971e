"""A ratio is one of the same round, and the gateway's CPU is divided by what its clients received."""

from __future__ import annotations

import json

from perf.gateway_report import ChunkCost, OpenStreams, Throughput, chunk_cost, summarize, tables, throughputs
from perf.metrics import NS_PER_S
from perf.overhead_report import Turn
from perf.records import CpuSample, RequestRecord
from perf.tables import to_text

S = NS_PER_S
REQUESTS = [RequestRecord(0, (S, S, 2 * S), (0, 0, 10)), RequestRecord(0, (2 * S,), (10,))]  # 4 chunks, 20 tokens, 2 s


def turn(side: str, number: int, tokens_per_s: float, cpu_s: float = 0.0) -> Turn:
    samples = {"gateway": [CpuSample(0, 0.0), CpuSample(2 * S, cpu_s)]}
    return Turn(side, 8, number, 0.1, tokens_per_s, 0.5, 0.0, REQUESTS, samples)


TURNS = [
    turn("direct", 1, 100.0),
    turn("gateway", 1, 98.0, 0.0002),
    turn("gateway", 2, 99.0, 0.0004),
    turn("direct", 2, 110.0),
    turn("direct", 3, 105.0),
    turn("gateway", 3, 100.8, 0.0008),
]
MANY = OpenStreams(1000, 2000.0, 60.0, 90.0, 80.0, 0.5)


def test_ratio_is_the_median_of_the_rounds_ratios() -> None:
    assert throughputs(TURNS) == {8: Throughput(105.0, 99.0, 0.96, 100.0)}


def test_cost_of_a_chunk() -> None:
    found = chunk_cost([turn("gateway", 1, 10.0, 0.0004)])
    assert found == ChunkCost(2.0, 5.0, 100.0, 20.0, 0.0002)


def test_summary_and_tables() -> None:
    cost = ChunkCost(1600.0, 1.0, 90.0, 85.0, 0.14)
    summary = json.loads(json.dumps(summarize(TURNS, cost, MANY)))
    assert (summary["medians"][0]["ratio"], summary["chunk_cost"]["cpu_us_per_chunk"]) == (0.96, 90.0)
    assert "requests" not in summary["turns"][0]
    shown = [to_text(table).split("\n")[2].split() for table in tables(TURNS, cost, MANY)]
    assert shown == [
        ["8", "105", "99", "0.96", "100"],
        ["1,600", "1", "90", "85", "0.14"],
        ["1000", "2,000", "60", "90", "80", "0.5"],
    ]
    assert len(tables(TURNS, cost, None)) == 2
    assert summarize(TURNS, cost, None)["open_streams"] is None
