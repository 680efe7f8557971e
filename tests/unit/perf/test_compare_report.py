"""A ratio is one of the same round; latencies are those of all rounds; what cannot be seen is not made up."""

from __future__ import annotations

import json

from perf.compare_report import Ratio, Served, plots, pooled, pss_mib, ratios, served, summarize, tables
from perf.metrics import NS_PER_S
from perf.overhead_report import Turn
from perf.plots import Bars
from perf.processes import Memory
from perf.records import RequestRecord
from perf.tables import to_text

MS = NS_PER_S // 1000


def turn(side: str, number: int, tokens_per_s: float, cores: float, first_ms: int = 10, streams: int = 2) -> Turn:
    """Two answers of eight tokens: events after `first_ms`, 20 and 50 ms later; and one that comes whole."""
    requests = [
        RequestRecord(0, (first_ms * MS, (first_ms + 20) * MS, (first_ms + 70) * MS), (1, 2, 5)),
        RequestRecord(0, ((first_ms + 2) * MS,), (8,)),
    ]
    return Turn(side, streams, number, 0.1, tokens_per_s, cores, 0.25, requests, {})


TURNS = [
    turn("vllm-serve", 1, 100.0, 1.0),
    turn("tritone", 1, 90.0, 0.9, first_ms=12),
    turn("tritone", 2, 120.0, 1.2, first_ms=20),
    turn("vllm-serve", 2, 100.0, 0.5),
]
MEMORY = {
    "vllm-serve": {"vllm-serve": Memory(700.0, 500.0), "vllm-serve: Worker": Memory(2000.0, 1900.0)},
    "tritone": {"server": Memory(40.0, 30.0), "gateway": Memory(60.0, None)},
}
OPTIONS = {"tritone": ["max_num_seqs=2"], "vllm-serve": ["--max-num-seqs=2", "--enforce-eager"]}


def test_figures_of_a_turn() -> None:
    assert served(TURNS[0]) == Served(tokens_per_s=100.0, ttft_p50_ms=10.0, e2e_p99_ms=80.0, cpu_s_per_1000_tokens=10.0)
    assert served(TURNS[0]._replace(cores=0.0)).cpu_s_per_1000_tokens is None


def test_rounds_are_pooled_for_latencies_and_halved_for_rates() -> None:
    (point, records, figures) = pooled(TURNS)["tritone"][0]
    assert (point.kind, point.value, len(records)) == ("concurrency", 2, 4)
    assert figures["output_tokens_per_s"] == 105.0
    assert figures["ttft_p99_ms"] == 22.0
    assert figures["itl_p99_ms"] == 50.0
    assert figures["per_token_p50_ms"] == 10.0


def test_ratios_are_to_the_first_side_within_a_round() -> None:
    found = ratios(TURNS)["tritone", 2]
    assert found["tokens_per_s"] == Ratio(1.05, 0.9, 1.2)
    assert found["ttft_p50_ms"] == Ratio(1.6, 1.2, 2.0)
    assert found["cpu_s_per_1000_tokens"] == Ratio(1.5, 1.0, 2.0)
    unseen = [one._replace(cores=0.0) if one.side == "tritone" else one for one in TURNS]
    assert ratios(unseen)["tritone", 2]["cpu_s_per_1000_tokens"] is None
    assert ratios(TURNS[:1]) == {}


def test_summary_is_json_and_holds_what_the_tables_show() -> None:
    summary = json.loads(json.dumps(summarize(TURNS, MEMORY, OPTIONS)))
    assert [entry["side"] for entry in summary["sides"]] == ["vllm-serve", "tritone"]
    assert summary["ratios"][0]["tokens_per_s"] == {"median": 1.05, "least": 0.9, "greatest": 1.2}
    assert "requests" not in summary["turns"][0]
    text = "\n".join(map(to_text, tables(TURNS, MEMORY, OPTIONS)))
    assert "sides that had not their turn used at most 0.25 cores" in text
    assert "Side / vllm-serve, within a round" in text
    assert "--max-num-seqs=2 --enforce-eager" in text


def test_memory_is_summed_only_where_all_may_be_read() -> None:
    assert pss_mib(MEMORY["vllm-serve"]) == 2400.0
    assert pss_mib(MEMORY["tritone"]) is None
    assert pss_mib({}) is None
    assert Bars("Memory of all processes", "resident (PSS), MiB", {"vllm-serve": 2400.0}) in plots(TURNS, MEMORY)


def test_curves_need_several_loads() -> None:
    more = [*TURNS, *(one._replace(streams=8) for one in TURNS)]
    assert "Throughput" not in [plot.title for plot in plots(TURNS, MEMORY)]
    curve = next(plot for plot in plots(more, MEMORY) if plot.title == "Throughput")
    assert isinstance(curve.x_label, str)  # type: ignore[union-attr]
    assert curve.series[0].points == [(2.0, 100.0), (8.0, 100.0)]  # type: ignore[union-attr]
