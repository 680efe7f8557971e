"""The benchmarks run, and their figures follow from the raw samples they leave."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perf import metrics
from perf.records import RequestRecord

from .engines import ENGINES, needs_environment
from .nvidia_layout import write_layout

pytestmark = pytest.mark.service


def run_perf(out: Path, *arguments: str) -> dict[str, Any]:
    """The summary of a benchmark of one round."""
    command = [sys.executable, "-m", "perf", *arguments, "--rounds", "1", "--out", str(out)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"Raw samples: {out}" in run.stdout
    summary: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return summary


def raw_requests(out: Path, **wanted: Any) -> list[RequestRecord]:
    """The raw samples of one run."""
    rows = [json.loads(line) for line in (out / "requests.jsonl").read_text().splitlines()]
    return [
        RequestRecord(row["started_ns"], tuple(row["received_ns"]), tuple(row["tokens"]))
        for row in rows
        if wanted.items() <= row.items()
    ]


def test_pipeline_next_to_another_ensemble(tmp_path: Path) -> None:
    write_layout(tmp_path / "layout")
    out = tmp_path / "out"
    load = ("--streams", "1,4", "--rate", "100", "--tokens", "20", "--seconds", "1")
    summary = run_perf(out, "pipeline", *load, "--against", str(tmp_path / "layout"))
    figures = {(entry["side"], entry["streams"]): entry for entry in summary["medians"]}
    assert set(figures) == {(side, streams) for side in ("tritone", "against") for streams in (1, 4)}
    for (side, streams), found in figures.items():
        requests = raw_requests(out, side=side, streams=streams)
        assert {len(request.tokens) for request in requests if side == "against"} <= set(range(10, 31))
        if streams == 4:
            window = metrics.steady_window(requests, 4)
            assert found["tokens_per_s"] == metrics.tokens_per_s(requests, window)
        else:
            assert 0 < found["added_p50_ms"] <= found["added_p99_ms"]
            assert {sum(request.tokens) for request in requests} == {20}
        assert min(found[f"rss_mib_{name}"] for name in ("server", "preprocess", "engine", "postprocess")) > 1
    assert [entry["streams"] for entry in summary["ratios"]] == [1, 4]


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if "vllm" not in engine.values])  # starts slowly
def test_overhead_of_the_ensemble(engine: str, tmp_path: Path) -> None:
    load = ("--streams", "2", "--tokens", "8")
    summary = run_perf(tmp_path / "out", "overhead", "--engine", engine, *load)
    requests = raw_requests(tmp_path / "out", side="tritone", streams=2, round=1)
    assert [sum(request.tokens) for request in requests] == [8, 8]
    (found,) = summary["medians"]
    assert found["tritone_tokens_per_s"] == metrics.burst_tokens_per_s(requests)
    assert found["ratio"] == found["tritone_tokens_per_s"] / found["bare_tokens_per_s"]
    assert set(summary["memory"]) >= {"bare engine", "server", "preprocess", "engine", "postprocess"}


@needs_environment
def test_engine_and_vllms_own_server_next_to_each_other(tmp_path: Path) -> None:
    sides = ("vllm-serve", "openvino")
    arguments = [argument for side in sides for argument in ("--side", side)]
    load = ("--streams", "1,2", "--tokens", "8", "--set", "vllm.enforce_eager=true", "--set", "vllm.dtype=float32")
    summary = run_perf(tmp_path / "out", "compare", *arguments, *load)
    assert [(entry["side"], entry["streams"]) for entry in summary["sides"]] == [
        (side, streams) for side in sides for streams in (1, 2)
    ]
    for side in sides:
        requests = raw_requests(tmp_path / "out", side=side, streams=2, round=1)
        assert [sum(request.tokens) for request in requests] == [8, 8]
        (turn,) = [turn for turn in summary["turns"] if (turn["side"], turn["streams"]) == (side, 2)]
        assert turn["tokens_per_s"] == metrics.burst_tokens_per_s(requests)
        assert 0 < turn["ttft_p50_ms"] < turn["e2e_p99_ms"]
    speeds = {(turn["side"], turn["streams"]): turn["tokens_per_s"] for turn in summary["turns"]}
    assert [(entry["side"], entry["streams"], entry["tokens_per_s"]["median"]) for entry in summary["ratios"]] == [
        (side, streams, speeds[side, streams] / speeds["vllm-serve", streams])
        for side in sides[1:]
        for streams in (1, 2)
    ]
    assert "--enforce-eager" in summary["options"]["vllm-serve"]
    assert "<svg" in (tmp_path / "out" / "report.html").read_text()


def test_gateway_next_to_the_ensemble(tmp_path: Path) -> None:
    load = ("--streams", "2", "--tokens", "8", "--seconds", "1", "--open-streams", "20")
    summary = run_perf(tmp_path / "out", "gateway", *load)
    (found,) = summary["medians"]
    requests = raw_requests(tmp_path / "out", side="gateway", streams=2, round=1)
    assert [sum(request.tokens) for request in requests] == [8, 8]
    assert found["gateway_tokens_per_s"] == metrics.burst_tokens_per_s(requests)
    assert found["ratio"] == found["gateway_tokens_per_s"] / found["direct_tokens_per_s"]
    assert 0 < summary["chunk_cost"]["cpu_us_per_token"] < 5000
    assert 0 < summary["chunk_cost"]["cpu_us_per_chunk"] < 5000
    assert len(raw_requests(tmp_path / "out", side="open streams")) == summary["open_streams"]["streams"] == 20
