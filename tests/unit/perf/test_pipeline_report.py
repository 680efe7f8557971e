"""Medians are over rounds, ratios within them."""

from __future__ import annotations

import json

from perf.pipeline_report import medians, ratios, summarize, tables
from perf.processes import STAGES, Memory
from perf.records import RequestRecord
from perf.runs import Measured, Point, Run
from perf.tables import to_text

POINT = Point(64, 500.0)
PROCESSES = ("server", *STAGES, "client")


def run(side: str, number: int, tokens_per_s: float, cpu_s: float = 0.5) -> Run:
    figures = {"tokens_per_s": float(tokens_per_s), "delivered_share": tokens_per_s / 32000}
    figures |= {f"cpu_s_per_1000_tokens_{process}": cpu_s for process in PROCESSES}
    memory = {"server": Memory(40.0, 36.0), "engine": Memory(41.5, None)}
    return Run(side, POINT, number, 0.1, Measured([RequestRecord(0, (1,), (1,))], {}, figures, memory))


RUNS = [
    run("tritone", 1, 30000),
    run("against", 1, 6000),
    run("tritone", 2, 20000),
    run("against", 2, 5000, cpu_s=2.0),
    run("tritone", 3, 31000),
    run("against", 3, 3100),
]


def test_medians_over_the_rounds() -> None:
    ours = medians(RUNS)[("tritone", POINT)]
    assert (ours["tokens_per_s"], ours["cpu_s_per_1000_tokens"], ours["rss_mib_engine"]) == (30000, 2.0, 41.5)
    assert "pss_mib_engine" not in ours
    assert medians(RUNS)[("against", POINT)]["tokens_per_s"] == 5000


def test_ratio_is_the_median_of_the_rounds_ratios() -> None:
    assert ratios(RUNS) == {POINT: {"tokens_per_s": 5.0, "cpu_s_per_1000_tokens": 1.0}}


def test_one_side_has_no_ratios() -> None:
    assert ratios(RUNS[::2]) == {}
    assert len(tables(RUNS[::2])) == 3


def test_round_that_has_one_side_only_is_left_out() -> None:
    assert ratios([*RUNS[:2], RUNS[2]])[POINT]["tokens_per_s"] == 5.0


def test_summary_is_json_with_every_run() -> None:
    summary = json.loads(json.dumps(summarize(RUNS)))
    assert [entry["tokens_per_s"] for entry in summary["runs"]] == [30000, 6000, 20000, 5000, 31000, 3100]
    assert summary["runs"][0]["memory"]["server"] == {"rss_mib": 40.0, "pss_mib": 36.0}
    assert [(entry["side"], entry["streams"]) for entry in summary["medians"]] == [("tritone", 64), ("against", 64)]
    assert summary["ratios"][0]["tokens_per_s"] == 5.0


def test_tables_show_what_is_not_measured_as_a_dash() -> None:
    delivered, cpu, memory, compared = (to_text(table).split("\n") for table in tables(RUNS))
    assert delivered[2].split() == ["tritone", "64", "500", "30,000", "0.938", *["-"] * 7]
    assert cpu[3].split() == ["against", "64", "500", *["0.5"] * 5, "2"]
    assert memory[2].split() == ["tritone", "64", "500", "40", "(36)", "-", "41.5", "-"]
    assert compared[2].split() == ["64", "500", "5", "1"]
