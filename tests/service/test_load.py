"""`python -m perf load` against a real server whose speed is known, by every front, and against servers that fail."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perf.load.client import connected
from perf.load.fronts import Target
from perf.load.record import LoadRecord
from perf.load.request import LoadRequest

from .replying import DONE, END, ERROR, HEAD, TEXT, USAGE, chunk, replying
from .serving import HOST, Server, serve

pytestmark = pytest.mark.service

TOKENS_PER_S = 100.0
FRONTS = ("generate_stream", "grpc", "completions", "chat")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, toy_model: Path) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("load")
    with serve(folder, toy_model, "--set", f"tokens_per_second={TOKENS_PER_S}") as running:
        yield running


def run_load(out: Path, model: Path, *arguments: str) -> dict[str, Any]:
    """The summary of a load test."""
    command = [sys.executable, "-m", "perf", "load", "--tokenizer", str(model), "--out", str(out), *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
    summary: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return summary


def address(server: Server, front: str) -> str:
    """Where a front of the server is."""
    if front == "grpc":
        return server.grpc
    return f"http://{server.http if front == 'generate_stream' else server.gateway}"


@pytest.mark.parametrize("front", FRONTS)
def test_closed_loop_by_every_front(front: str, server: Server, toy_model: Path, tmp_path: Path) -> None:
    common = ("--url", address(server, front), "--model", "toy", "--front", front)
    load = ("--concurrency", "4", "--requests", "12", "--prompt-tokens", "30-60", "--output-tokens", "20")
    watch = ("--server-pid", str(server.process.pid), "--metrics-url", f"http://{server.metrics}/metrics")
    summary = run_load(tmp_path / "out", toy_model, *common, *load, *watch)
    (point,) = summary["points"]
    assert (point["requests"], point["answered"], point["error_rate"]) == (12, 12, 0)
    assert point["finish_reasons"] == {"length": 12}
    assert point["counting"] == {"counted": 12}
    rows = [json.loads(line) for line in (tmp_path / "out" / "requests.jsonl").read_text().splitlines()]
    assert [sum(row["tokens"]) for row in rows] == [20] * 12
    assert min(row["prompt_tokens"] for row in rows) >= 30
    if front != "chat":
        assert max(row["prompt_tokens"] for row in rows) <= 60
    assert point["tpot_p50_ms"] == pytest.approx(1000 / TOKENS_PER_S, rel=0.15)
    assert point["per_token_p50_ms"] == pytest.approx(1000 / TOKENS_PER_S, rel=0.2)
    assert point["output_tokens_per_s"] < 4 * TOKENS_PER_S * 1.05
    assert point["server_cpu_s"] > 0
    assert point["server_peak_rss_mib"] > 100
    assert point["queue_mean_ms"] > 0
    assert "<svg" in (tmp_path / "out" / "report.html").read_text()


def test_open_loop_with_objectives(server: Server, toy_model: Path, tmp_path: Path) -> None:
    common = ("--url", address(server, "generate_stream"), "--model", "toy", "--front", "generate_stream")
    load = ("--request-rate", "20", "--arrivals", "constant", "--seconds", "2", "--output-tokens", "10")
    summary = run_load(tmp_path / "out", toy_model, *common, *load, "--slo", "e2e:10000", "--slo", "ttft:5000")
    (point,) = summary["points"]
    assert (point["requests"], point["answered"]) == (40, 40)
    assert point["goodput_requests_per_s"] == pytest.approx(point["requests_per_s"])
    rows = [json.loads(line) for line in (tmp_path / "out" / "requests.jsonl").read_text().splitlines()]
    dues = [row["due_ns"] for row in rows]
    assert [due - dues[0] for due in dues] == [number * 50_000_000 for number in range(40)]


def test_trace_is_replayed(server: Server, toy_model: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    rows = [{"timestamp": 100 * number, "input_length": 20 + number, "output_length": 5} for number in range(6)]
    trace.write_text("\n".join(map(json.dumps, rows)))
    common = ("--url", address(server, "completions"), "--model", "toy", "--front", "completions")
    (point,) = run_load(tmp_path / "out", toy_model, *common, "--trace", str(trace))["points"]
    assert (point["kind"], point["answered"], point["prompt_tokens_mean"]) == ("trace", 6, 22.5)


def test_refused_requests_end_the_warm_up_with_the_servers_words(
    server: Server, toy_model: Path, tmp_path: Path
) -> None:
    common = ("--url", address(server, "chat"), "--model", "nobody", "--front", "chat", "--tokenizer", str(toy_model))
    command = [sys.executable, "-m", "perf", "load", *common, "--out", str(tmp_path / "out")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert "every request of the warm-up failed, the first: refused: HTTP 404" in run.stderr


def ask(url: str, timeout_s: float = 10.0) -> LoadRecord:
    """What became of one request for a completion."""

    async def send() -> LoadRecord:
        target = Target(url, "m", timeout_s=timeout_s)
        async with connected("completions", target, None) as client:
            return await client.send(LoadRequest("hello", 2), None)

    return asyncio.run(send())


def test_an_answer_of_a_server_that_tells_the_total_only() -> None:
    with replying(HEAD + chunk(TEXT) + chunk(TEXT + USAGE) + chunk(DONE) + END) as url:
        record = ask(url)
    assert (record.error, record.tokens, record.prompt_tokens, record.counting) == (None, (1, 1), 3, "apportioned")
    assert len(record.received_ns) == 2


def test_events_cut_anywhere_are_put_together() -> None:
    body = b"".join(chunk(bytes([byte])) for byte in TEXT + TEXT + USAGE + DONE)
    with replying(HEAD + body + END) as url:
        record = ask(url)
    assert (record.error, record.tokens) == (None, (1, 1))


@pytest.mark.parametrize(
    ("reply", "error", "tokens"),
    [
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy", "refused", 0),
        (HEAD + chunk(TEXT) + chunk(ERROR) + chunk(DONE) + END, "error event", 1),
        (HEAD + chunk(TEXT) + END, "no end", 1),
        (HEAD + chunk(TEXT), "broken off", 1),
        (HEAD + chunk(TEXT) + chunk(b"data: {oops\n\n") + chunk(DONE) + END, "error event", 1),
        (b"", "broken off", 0),
    ],
)
def test_every_kind_of_failure_is_an_error(reply: bytes, error: str, tokens: int) -> None:
    with replying(reply) as url:
        record = ask(url)
    assert (record.error, record.output_tokens) == (error, tokens)
    assert record.detail


def test_an_answer_that_takes_too_long() -> None:
    with replying(HEAD + chunk(TEXT), held_s=0.6) as url:
        record = ask(url, timeout_s=0.3)
    assert (record.error, record.output_tokens) == ("timeout", 1)


def test_nobody_listens() -> None:
    assert ask(f"http://{HOST}:1").error == "broken off"
