"""A ratio is one of the same round, and the event with the usage is not counted as text."""

from __future__ import annotations

import json

from perf.metrics import NS_PER_S
from perf.overhead_report import Turn
from perf.processes import Memory
from perf.records import RequestRecord
from perf.servers_report import Ratio, Served, medians, ratios, served, summarize, tables
from perf.tables import to_text

MS = NS_PER_S // 1000


def turn(side: str, number: int, tokens_per_s: float, cores: float, first_ms: int = 10, idle: float = 0.0) -> Turn:
    """Two answers: text after `first_ms`, 20 and 50 ms later, then the usage; and one with a single text."""
    requests = [
        RequestRecord(
            0, (first_ms * MS, (first_ms + 20) * MS, (first_ms + 70) * MS, (first_ms + 71) * MS), (0, 0, 0, 8)
        ),
        RequestRecord(0, ((first_ms + 2) * MS, (first_ms + 72) * MS), (0, 8)),
    ]
    return Turn(side, 2, number, 0.1, tokens_per_s, cores, idle, requests, {})


TURNS = [
    turn("vllm-serve", 1, 100.0, 1.0),
    turn("tritone", 1, 90.0, 0.9, first_ms=12),
    turn("tritone", 2, 120.0, 1.2, first_ms=20, idle=0.25),
    turn("vllm-serve", 2, 100.0, 0.5),
]
MEMORY = {
    "vllm-serve": {"vllm-serve": Memory(700.0, 500.0), "vllm-serve: Worker": Memory(2000.0, 1900.0)},
    "tritone": {"server": Memory(40.0, 30.0), "gateway": Memory(60.0, None)},
}
OPTIONS = {"tritone": ["max_num_seqs=2"], "vllm-serve": ["--max-num-seqs=2", "--enforce-eager"]}


def test_figures_of_a_turn() -> None:
    assert served(TURNS[0]) == Served(
        tokens_per_s=100.0,
        ttft_p50_ms=10.0,
        ttft_p99_ms=12.0,
        gap_p50_ms=20.0,
        gap_p99_ms=50.0,
        events_per_answer=2.0,
        cpu_s_per_1000_tokens=10.0,
    )


def test_answers_of_one_event_have_no_gap() -> None:
    requests = [RequestRecord(0, (5 * MS, 6 * MS), (0, 8))]
    found = served(TURNS[0]._replace(requests=requests))
    assert (found.gap_p50_ms, found.gap_p99_ms, found.events_per_answer) == (None, None, 1.0)
    assert medians([TURNS[0]._replace(requests=requests)])[2, "vllm-serve"].gap_p50_ms is None


def test_medians_and_ratios() -> None:
    assert medians(TURNS)[2, "tritone"] == Served(105.0, 16.0, 18.0, 20.0, 50.0, 2.0, 10.0)
    assert medians(TURNS)[2, "vllm-serve"].cpu_s_per_1000_tokens == 7.5
    assert ratios(TURNS) == {
        (2, "vllm-serve"): {
            "tokens_per_s": Ratio(1.05, 0.9, 1.2),
            "ttft_p50_ms": Ratio(1.6, 1.2, 2.0),
            "cpu_s_per_1000_tokens": Ratio(1.5, 1.0, 2.0),
        }
    }


def test_summary_and_tables() -> None:
    summary = json.loads(json.dumps(summarize(TURNS, MEMORY, OPTIONS)))
    assert summary["options"]["vllm-serve"] == ["--max-num-seqs=2", "--enforce-eager"]
    assert [(entry["side"], entry["events_per_answer"]) for entry in summary["turns"][:2]] == [
        ("vllm-serve", 2.0),
        ("tritone", 2.0),
    ]
    assert "requests" not in summary["turns"][0]
    assert summary["ratios"][0]["against"] == "vllm-serve"
    assert summary["ratios"][0]["tokens_per_s"] == {"median": 1.05, "least": 0.9, "greatest": 1.2}
    assert summary["memory"]["tritone"]["gateway"] == {"rss_mib": 60.0, "pss_mib": None}
    figures, compared, memory, options = (to_text(table).split("\n") for table in tables(TURNS, MEMORY, OPTIONS))
    assert figures[0] == "Served, the other sides using at most 0.25 cores meanwhile"
    assert figures[2].split() == ["2", "vllm-serve", "100", "10", "12", "20", "50", "2", "7.5"]
    assert compared[2].split() == ["2", "vllm-serve", "1.05", "0.9", "1.2", "1.6", "1.2", "2", "1.5", "1", "2"]
    assert [line.split()[-2:] for line in memory[2:]] == [
        ["700", "500"],
        ["2,000", "1,900"],
        ["-", "2,400"],
        ["40", "30"],
        ["60", "-"],
        ["-", "-"],
    ]
    assert options[3].split() == ["vllm-serve", "--max-num-seqs=2", "--enforce-eager"]
