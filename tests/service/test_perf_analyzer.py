"""perf_analyzer itself against the ensemble: decoupled, gRPC streaming, many streams at once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perf import metrics
from perf.analyzer import AnalyzerError, Load, run_load
from perf.cpu_sampler import CpuSampler
from perf.export import cumulative
from perf.processes import server_processes

from .serving import Server, serve

pytestmark = pytest.mark.service

STREAMS, REQUESTS, RATE = 8, 32, 200.0
PROMPT = "a prompt that comes back again and again; "


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, toy_model: Path) -> Iterator[Server]:
    options = ("--max-num-seqs", str(STREAMS), "--set", f"tokens_per_second={RATE}")
    with serve(tmp_path_factory.mktemp("perf"), toy_model, *options) as running:
        yield running


def inputs(max_tokens: int) -> dict[str, Any]:
    return {"text_input": [PROMPT], "max_tokens": [max_tokens], "ignore_eos": [True], "stream": [True]}


def load(lengths: list[int], timeout_s: float = 60.0) -> Load:
    return Load(STREAMS, REQUESTS, [inputs(length) for length in lengths], timeout_s)


def test_closed_loop_of_streams(server: Server, tmp_path: Path) -> None:
    lengths = [20, 35, 27, 50]
    with CpuSampler(server_processes(server.server_pid, "toy")) as sampler:
        requests = run_load(server.grpc, "toy", load(lengths), cumulative, sampler, tmp_path)
    assert Counter(sum(request.tokens) for request in requests) == dict.fromkeys(lengths, REQUESTS // len(lengths))
    assert all(len(request.received_ns) > 1 for request in requests), "one response for a whole answer is no stream"
    assert all(sorted(request.received_ns) == list(request.received_ns) for request in requests)
    window = metrics.steady_window(requests, STREAMS)
    assert 0 < metrics.delivered_share(metrics.tokens_per_s(requests, window), STREAMS, RATE) <= 1.1
    assert set(sampler.samples) == {"server", "preprocess", "engine", "postprocess", "client"}


def test_text_arrives_whole(server: Server, tmp_path: Path) -> None:
    with CpuSampler({}) as sampler:
        run_load(server.grpc, "toy", load([100]), cumulative, sampler, tmp_path)
    experiment = json.loads((tmp_path / "export.json").read_text("utf-8"))["experiments"][0]
    texts = {"".join(out["text_output"] for out in entry["response_outputs"]) for entry in experiment["requests"]}
    assert texts == {(PROMPT * 3)[:100]}
    assert {entry["response_outputs"][-1]["finish_reason"] for entry in experiment["requests"]} == {"length"}


def test_refused_request_ends_the_run_with_the_reason(server: Server, tmp_path: Path) -> None:
    with CpuSampler({}) as sampler, pytest.raises(AnalyzerError, match="max_tokens"):
        run_load(server.grpc, "toy", load([-1]), cumulative, sampler, tmp_path)
