"""`python -m perf locust` against a real server of known speed, and its clients against servers that fail."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from perf.load.fronts import Target
from perf.load.gevent_http import GeventHttp
from perf.load.record import LoadRecord
from perf.load.request import LoadRequest

from .replying import DONE, END, ERROR, HEAD, TEXT, USAGE, chunk, replying
from .serving import HOST, Server, free_ports, serve, wait_until

pytestmark = pytest.mark.service

TOKENS_PER_S = 50.0
FRONTS = ("chat", "completions", "generate_stream", "grpc")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, toy_model: Path) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("locust")
    with serve(folder, toy_model, "--set", f"tokens_per_second={TOKENS_PER_S}") as running:
        yield running


def locust(out: Path, model: Path, *arguments: str) -> list[str]:
    """The command of a run on the model."""
    return [sys.executable, "-m", "perf", "locust", "--tokenizer", str(model), "--out", str(out), *arguments]


def addresses(server: Server, model: str = "toy") -> list[str]:
    """Where the server is."""
    urls = ("--url", f"http://{server.gateway}", "--triton-url", f"http://{server.http}", "--grpc-url", server.grpc)
    return ["--model", model, *urls]


def test_users_of_every_front(server: Server, toy_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    fronts = [text for front in FRONTS for text in ("--front", front)]
    load = ("--users", "4", "--run-time", "4", "--shape", "steps", "--steps", "2", "--output-tokens", "10-20")
    command = locust(out, toy_model, *addresses(server), *fronts, *load)
    run = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert run.returncode == 0, run.stdout + run.stderr
    summary = json.loads((out / "summary.json").read_text())
    assert sorted(point["front"] for point in summary["points"]) == sorted(FRONTS)
    rows = [json.loads(line) for line in (out / "requests.jsonl").read_text().splitlines()]
    for point in summary["points"]:
        own = [row for row in rows if row["front"] == point["front"]]
        assert (point["requests"], point["answered"], point["error_rate"]) == (len(own), len(own), 0)
        assert {sum(row["tokens"]) for row in own} <= set(range(10, 21))
        assert point["counting"] == {"counted": len(own)}
        assert point["tpot_p50_ms"] == pytest.approx(1000 / TOKENS_PER_S, rel=0.15)
    table = (out / "locust_stats.csv").read_text().splitlines()
    requests = {line.split(",")[1]: int(line.split(",")[2]) for line in table[1:]}
    for front in FRONTS:
        own = [row for row in rows if row["front"] == front]
        assert requests[f"{front}: TTFT"] == requests[front]
        assert len(own) - 2 <= requests[front] <= len(own)  # this file is written once a second, not at the very end
        assert 9 * requests[front] <= requests[f"{front}: per token"] <= 19 * requests[front]
    assert requests["Aggregated"] == sum(requests[front] for front in FRONTS)
    assert "Tokens over time" in (out / "report.html").read_text()
    assert (out / "locust.html").exists()


def test_failed_requests_fail_the_run(server: Server, toy_model: Path, tmp_path: Path) -> None:
    command = locust(tmp_path / "out", toy_model, *addresses(server, "nobody"), "--run-time", "1", "--users", "1")
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert "requests failed" in run.stderr
    assert "refused: HTTP 404" in (tmp_path / "out" / "locust_failures.csv").read_text()


def test_nobody_answers_grpc(toy_model: Path, tmp_path: Path) -> None:
    arguments = ("--model", "toy", "--front", "grpc", "--grpc-url", f"{HOST}:1", "--run-time", "1", "--users", "1")
    command = locust(tmp_path / "out", toy_model, *arguments)
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert "no request was sent" in run.stderr


def test_web_page(server: Server, toy_model: Path, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    command = locust(tmp_path / "out", toy_model, *addresses(server), "--web", "--web-port", str(port))
    log = tmp_path / "log.txt"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            wait_until(lambda: listens(port) or process.poll() is not None, 30)
            page = f"http://{HOST}:{port}"
            start = b"user_count=2&spawn_rate=2&run_time=60s&output_tokens=10"
            urlopen(f"{page}/swarm", data=start, timeout=10).close()
            wait_until(lambda: b"<svg" in urlopen(f"{page}/tokens", timeout=10).read(), 20)
            stats = json.load(urlopen(f"{page}/stats/requests", timeout=10))
            assert "chat: per token" in {row["name"] for row in stats["stats"]}
        finally:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(40)
            process.kill()
    assert "Tokens over time" in (tmp_path / "out" / "report.html").read_text(), log.read_text()


def listens(port: int) -> bool:
    """Whether anybody does."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def ask(url: str, timeout_s: float = 10.0) -> LoadRecord:
    """What became of one request for a completion."""
    client = GeventHttp("completions", Target(url, "m", timeout_s=timeout_s), None)
    try:
        return client.send(LoadRequest("hello", 2))
    finally:
        client.close()


@pytest.mark.parametrize(
    ("reply", "error", "tokens"),
    [
        (HEAD + chunk(TEXT) + chunk(TEXT + USAGE) + chunk(DONE) + END, None, 2),
        (HEAD + b"".join(chunk(bytes([byte])) for byte in TEXT + TEXT + USAGE + DONE) + END, None, 2),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy", "refused", 0),
        (HEAD + chunk(TEXT) + chunk(ERROR) + chunk(DONE) + END, "error event", 1),
        (HEAD + chunk(TEXT) + END, "no end", 1),
        (HEAD + chunk(TEXT), "broken off", 1),
        (HEAD + chunk(TEXT) + chunk(b"data: {oops\n\n") + chunk(DONE) + END, "error event", 1),
        (b"", "broken off", 0),
    ],
)
def test_answers_whole_and_broken(reply: bytes, error: str | None, tokens: int) -> None:
    with replying(reply) as url:
        record = ask(url)
    assert (record.error, record.output_tokens) == (error, tokens)
    assert (record.detail is None) == (error is None)


def test_an_answer_that_takes_too_long() -> None:
    with replying(HEAD + chunk(TEXT), held_s=0.6) as url:
        record = ask(url, timeout_s=0.3)
    assert (record.error, record.output_tokens) == ("timeout", 1)


def test_nobody_listens() -> None:
    assert ask(f"http://{HOST}:1").error == "broken off"
