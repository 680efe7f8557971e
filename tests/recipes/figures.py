"""The same five figures out of what each tool leaves behind, and out of `python -m perf load`. Times are medians."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Figures:
    """What a load test says. `tpot_ms` is the tool's figure of that meaning, whatever its name there."""

    requests: int
    ttft_ms: float
    tpot_ms: float
    e2e_ms: float
    tokens_per_s: float


def of_perf_load(out: Path) -> Figures:
    """Ours."""
    (point,) = _json(out / "summary.json")["points"]
    assert point["errors"] == {}
    times = (point[f"{name}_p50_ms"] for name in ("ttft", "tpot", "e2e"))
    return Figures(point["answered"], *times, tokens_per_s=point["output_tokens_per_s"])


def of_aiperf(out: Path) -> Figures:
    """Its inter_token_latency is a mean over each answer, so a TPOT."""
    found = _json(out / "profile_export_aiperf.json")
    assert not found.get("error_summary")
    times = (found[name]["p50"] for name in ("time_to_first_token", "inter_token_latency", "request_latency"))
    requests = int(found["request_count"]["avg"])
    return Figures(requests, *times, tokens_per_s=found["output_token_throughput"]["avg"])


def of_genai_perf(out: Path) -> Figures:
    """Likewise; it makes a folder of its own within `out`."""
    (file,) = out.rglob("profile_export_genai_perf.json")
    found = _json(file)
    times = (found[name]["p50"] for name in ("time_to_first_token", "inter_token_latency", "request_latency"))
    requests = int(found["request_count"]["avg"])
    return Figures(requests, *times, tokens_per_s=found["output_token_throughput"]["avg"])


def of_vllm_bench(out: Path) -> Figures:
    """Ours by name, with E2EL for E2E."""
    found = _json(out / "result.json")
    assert found["failed"] == 0
    times = (found[f"median_{name}_ms"] for name in ("ttft", "tpot", "e2el"))
    return Figures(found["completed"], *times, tokens_per_s=found["output_throughput"])


def of_guidellm(out: Path) -> Figures:
    """Its inter_token_latency is a TPOT; what it calls time per output token has the first token's time in it."""
    (benchmark,) = _json(out / "benchmarks.json")["benchmarks"]
    metrics, requests = benchmark["metrics"], benchmark["requests"]
    assert (requests["errored"], requests["incomplete"]) == ([], [])
    answers = requests["successful"]
    return Figures(
        len(answers),
        statistics.median(one["time_to_first_token_ms"] for one in answers),
        statistics.median(one["inter_token_latency_ms"] for one in answers),
        statistics.median(one["request_latency"] for one in answers) * 1000,
        metrics["output_tokens_per_second"]["successful"]["mean"],
    )


@dataclass(frozen=True)
class Tool:
    """How to read what a tool leaves behind, and the front of `perf load` that it calls, too."""

    read: Callable[[Path], Figures]
    front: str


TOOLS = {
    "AIPerf, OpenAI chat": Tool(of_aiperf, "chat"),
    "AIPerf, generate_stream": Tool(of_aiperf, "generate_stream"),
    "GenAI-Perf, generate_stream": Tool(of_genai_perf, "generate_stream"),
    "vllm bench serve, OpenAI completions": Tool(of_vllm_bench, "completions"),
    "GuideLLM, OpenAI chat": Tool(of_guidellm, "chat"),
}
"""By the titles of the page."""


def _json(file: Path) -> Any:
    return json.loads(file.read_text())
