"""`python -m perf soak` on a real server, and on one that leaks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .serving import HOST, free_ports, serve, wait_until

pytestmark = pytest.mark.service

LEAKY_SERVER = """
import http.server, sys
kept = []
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = self.rfile.read(int(self.headers["content-length"]))
        kept.append((b"x" * 300_000, open("/dev/null")))
        if b'"max_completion_tokens": -1' in asked:
            return self.send_error(400)
        self.send_response(200)
        self.end_headers()
        text = b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}'
        self.wfile.write(text + b"\\n\\ndata: [DONE]\\n\\n")
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def soak(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A soak to its end."""
    command = [sys.executable, "-m", "perf", "soak", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def hours(seconds: float) -> str:
    return f"{seconds / 3600:.6f}"


def test_a_server_that_does_not_leak_passes_also_when_resumed(toy_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serve(tmp_path / "server", toy_model, "--set", "tokens_per_second=100") as server:
        urls = ("--url", f"http://{server.gateway}", "--triton-url", f"http://{server.http}", "--grpc-url", server.grpc)
        fronts = [text for front in ("chat", "generate_stream", "grpc") for text in ("--front", front)]
        load = ("--tokenizer", str(toy_model), "--prompt-tokens", "10-30", "--output-tokens", "5-40")
        shares = ("--cancel-share", "0.3", "--bad-share", "0.2", "--hours", hours(10))
        options = ("--model", "toy", *urls, *fronts, *load, *shares, "--out", str(out))
        with subprocess.Popen([sys.executable, "-m", "perf", "soak", *options], stdout=subprocess.DEVNULL) as first:
            samples = out / "samples.jsonl"
            wait_until(lambda: samples.exists() and len(samples.read_text().splitlines()) > 5, 30)
            first.kill()  # nothing of it is lost
        with (out / "requests.jsonl").open("a") as requests:
            requests.write('{"outcome": "answ')  # as a kill while writing would leave it
        told = len((out / "requests.jsonl").read_text().splitlines()) - 1
        run = soak("--resume", str(out))
        assert run.returncode == 0, run.stdout + run.stderr
        assert "The soak has passed." in run.stdout
        assert server.run.live_streams() == 0
    rows = [json.loads(line) for line in (out / "requests.jsonl").read_text().splitlines()]
    summary = json.loads((out / "summary.json").read_text())
    assert sum(summary["outcomes"].values()) == len(rows) > told
    assert set(summary["outcomes"]) == {"answered", "left", "refused"}
    assert {row["front"] for row in rows} == {"chat", "generate_stream", "grpc"}
    assert (summary["errors"], summary["problems"], summary["streams_left"]) == ({}, [], 0)
    assert {row["segment"] for row in rows} == {0, 1}
    assert 9.9 < summary["seconds"] < 14
    watched = {(entry["process"], entry["measure"]) for entry in summary["growth"]}
    assert {
        (stage, "memory") for stage in ("launcher", "tritonserver", "preprocess", "engine", "postprocess")
    } <= watched
    assert "Memory" in (out / "report.html").read_text()


def test_a_server_that_leaks_fails(toy_model: Path, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with subprocess.Popen([sys.executable, "-c", LEAKY_SERVER, str(port)]) as leaky:
        try:
            wait_until(lambda: b"%04X" % port in Path(f"/proc/{leaky.pid}/net/tcp").read_bytes(), 10)
            load = ("--tokenizer", str(toy_model), "--concurrency", "1", "--hours", hours(6))
            run = soak("--model", "m", "--url", f"http://{HOST}:{port}", *load, "--out", str(tmp_path / "out"))
        finally:
            leaky.kill()
    assert run.returncode == 1
    assert "memory grows by" in run.stderr
    assert "handles grows by" in run.stderr


def test_a_server_that_dies_ends_the_soak(toy_model: Path, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    out = tmp_path / "out"
    with subprocess.Popen([sys.executable, "-c", LEAKY_SERVER, str(port)]) as server:
        wait_until(lambda: b"%04X" % port in Path(f"/proc/{server.pid}/net/tcp").read_bytes(), 10)
        load = ("--tokenizer", str(toy_model), "--concurrency", "1", "--out", str(out))
        command = [sys.executable, "-m", "perf", "soak", "--model", "m", "--url", f"http://{HOST}:{port}", *load]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
            wait_until(lambda: (out / "samples.jsonl").exists(), 20)
            os.kill(server.pid, signal.SIGKILL)
            server.wait()
            _, said = running.communicate(timeout=30)
    assert (running.returncode, f"the server's process {server.pid} is gone" in said) == (1, True)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    assert "--model: the model's name is needed" in soak().stderr
    assert "is no soak" in soak("--resume", str(tmp_path)).stderr
    assert "no process here listens on port 1" in soak("--model", "m", "--url", f"http://{HOST}:1").stderr
