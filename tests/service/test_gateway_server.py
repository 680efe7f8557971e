"""The gateway as a server beside a real Triton: how it starts, drains, dies and comes back, and what it lets in."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.service.serving import HOST, Server, assert_gone, launched, processes_of, serve, wait_until
from tritone import run_dir

pytestmark = pytest.mark.service

SLOW = ("--set", "tokens_per_second=20")
Reply = tuple[int, dict[str, str], bytes]


def ask(server: Server, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
    """Status, headers and body of one reply of the gateway."""
    with closing(http.client.HTTPConnection(HOST, server.gateway_port, timeout=30)) as connection:
        connection.request(method, path, None if body is None else json.dumps(body), dict(headers or {}))
        reply = connection.getresponse()
        return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()


def complete(server: Server, prompt: str, **headers: str) -> Reply:
    return ask(server, "POST", "/v1/completions", {"model": "toy", "prompt": prompt}, headers)


def status(server: Server, path: str) -> int:
    """The status of a path; 0 when nobody answers."""
    with suppress(OSError, http.client.HTTPException):
        return ask(server, "GET", path)[0]
    return 0


def streamed(server: Server, prompt: str) -> str:
    """The text of a streamed answer. Raises ConnectionError when it breaks off."""
    body = json.dumps({"model": "toy", "prompt": prompt, "stream": True})
    with closing(http.client.HTTPConnection(HOST, server.gateway_port, timeout=30)) as connection:
        connection.request("POST", "/v1/completions", body)
        lines = [line[6:] for line in connection.getresponse() if line.startswith(b"data: ")]
    if not lines or lines[-1].strip() != b"[DONE]":
        raise ConnectionError("the stream broke off")
    return "".join(choice["text"] for line in lines[:-1] for choice in json.loads(line)["choices"])


@contextmanager
def streams(server: Server, prompts: list[str]) -> Iterator[list[Any]]:
    """Answers that are being streamed; each is a future."""
    with ThreadPoolExecutor(len(prompts)) as pool:
        futures = [pool.submit(streamed, server, prompt) for prompt in prompts]
        wait_until(lambda: server.run.live_streams() == len(prompts), 10)
        yield futures


def gateway_pids(server: Server) -> set[int]:
    return {process.pid for process in run_dir.processes_of(server.run.gateway)}


def test_serves_openai_beside_triton(tmp_path: Path, toy_model: Path) -> None:
    with serve(tmp_path, toy_model) as server:
        code, headers, body = complete(server, "hello", **{"x-request-id": "mine"})
        assert (code, headers["x-request-id"], json.loads(body)["choices"][0]["text"]) == (200, "mine", "hello")
        assert status(server, "/health") == status(server, "/health/ready") == status(server, "/health/live") == 200
        scraped = ask(server, "GET", "/metrics")[2].decode()
        assert 'tritone:requests_total{model_name="toy",outcome="ok",route="/v1/completions"} 1.0' in scraped
        assert 'nv_inference_request_success{model="toy",' in scraped
        assert ask(server, "HEAD", "/metrics")[::2] == (200, b"")
        assert f"OpenAI   http://{server.gateway}/v1" in server.out.read_text()
    (line,) = (json.loads(line) for line in server.log.read_text().splitlines() if line.startswith("{"))
    assert (line["request_id"], line["prompt_tokens"], line["finish_reasons"]) == ("mine", 5, ["stop"])


def test_lets_open_streams_end_and_takes_nothing_new(tmp_path: Path, toy_model: Path) -> None:
    with serve(tmp_path, toy_model, *SLOW) as server, streams(server, ["a" * 60, "b" * 60]) as answers:
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: status(server, "/health/ready") == 503, 1)
        code, headers, body = complete(server, "late")
        assert (code, headers["retry-after"]) == (503, "1")
        assert "shutting down" in json.loads(body)["error"]["message"]
        assert status(server, "/health/live") == 200
        assert [answer.result(20) for answer in answers] == ["a" * 60, "b" * 60]
        assert server.process.wait(20) == 0, server.log.read_text()


def test_a_second_signal_stops_now(tmp_path: Path, toy_model: Path) -> None:
    with serve(tmp_path, toy_model, *SLOW) as server, streams(server, ["a" * 1000]) as answers:
        os.kill(server.process.pid, signal.SIGINT)
        wait_until(lambda: status(server, "/health/ready") == 503, 2)
        os.kill(server.process.pid, signal.SIGINT)
        assert server.process.wait(5) == 1
        assert isinstance(answers[0].exception(2), (OSError, http.client.HTTPException))


def test_a_killed_gateway_comes_back_and_triton_stays(tmp_path: Path, toy_model: Path) -> None:
    with serve(tmp_path, toy_model) as server:
        triton, (pid,) = server.server_pid, gateway_pids(server)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: pid not in gateway_pids(server) and status(server, "/health/ready") == 200, 15)
        assert complete(server, "hi")[0] == 200
        assert server.server_pid == triton
    assert "the gateway ended with status -9 and is started again" in server.log.read_text()


def test_outlives_a_triton_that_died(tmp_path: Path, toy_model: Path) -> None:
    with serve(tmp_path, toy_model) as server:
        before, triton = gateway_pids(server), server.server_pid
        os.kill(triton, signal.SIGKILL)
        wait_until(lambda: status(server, "/health/ready") == 503, 5)
        assert complete(server, "hi")[0] == 503
        wait_until(lambda: status(server, "/health/ready") == 200, 30)
        assert complete(server, "hi")[0] == 200
        assert gateway_pids(server) == before


def test_goes_with_a_killed_launcher(tmp_path: Path, toy_model: Path) -> None:
    with launched(tmp_path, toy_model, "--set", "tokens_per_second=20") as server:
        server.wait_until_ready()
        server.process.kill()
        server.process.wait()
        wait_until(lambda: not processes_of(tmp_path), 15)
        assert status(server, "/health/live") == 0


def test_can_be_left_out(tmp_path: Path, toy_model: Path) -> None:
    with serve(tmp_path, toy_model, "--no-gateway") as server:
        assert gateway_pids(server) == set()
        assert status(server, "/health/live") == 0
        assert "OpenAI" not in server.out.read_text()


def test_its_port_is_checked_before_anything_is_loaded(tmp_path: Path, toy_model: Path) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with launched(tmp_path, toy_model, "--gateway-port", str(port)) as server:
            assert server.process.wait(20) == 1
    assert f"--gateway-port {port} is in use by " in server.log.read_text()
    assert "loading" not in server.log.read_text()


def test_a_wrong_setting_of_the_gateway_is_told_before_anything_is_loaded(tmp_path: Path, toy_model: Path) -> None:
    file = tmp_path / "tritone.toml"
    file.write_text("[gateway]\nworker = 2")
    with launched(tmp_path, toy_model, "--config", str(file)) as server:
        assert server.process.wait(20) == 1
    assert server.log.read_text().startswith("Error: gateway: worker is unknown (did you mean workers?)")
    assert_gone(server)


def test_workers_share_port_metrics_and_fate(tmp_path: Path, toy_model: Path) -> None:
    log = tmp_path / "requests.jsonl"
    variables = {"TRITONE_GATEWAY_WORKERS": "3", "TRITONE_GATEWAY_LOG_FILE": str(log)}
    with serve(tmp_path, toy_model, *SLOW, variables=variables) as server:
        (first,) = (
            child for child in psutil.Process(server.process.pid).children() if child.pid in gateway_pids(server)
        )
        workers = {child.pid for child in first.children()}
        assert len(workers) == 3
        with ThreadPoolExecutor(9) as pool:
            assert {reply[0] for reply in pool.map(complete, [server] * 9, ["hi"] * 9)} == {200}
        # a request is counted a moment after its client has the answer
        wait_until(lambda: {count_of_completions(server) for _ in range(9)} == {9.0}, 5)
        os.kill(min(workers), signal.SIGKILL)
        wait_until(lambda: len({child.pid for child in first.children()} - workers) == 1, 10)
        with streams(server, ["a" * 40, "b" * 40, "c" * 40]) as answers:
            assert server.stop() == 0, server.log.read_text()
            assert [answer.result(5)[0] for answer in answers] == ["a", "b", "c"]
    assert len([json.loads(line) for line in log.read_text().splitlines()]) == 12


def count_of_completions(server: Server) -> float:
    scraped = ask(server, "GET", "/metrics")[2].decode()
    (line,) = (line for line in scraped.splitlines() if line.startswith("tritone:requests_total"))
    return float(line.split()[-1])


def test_asks_for_a_key_and_keeps_it_to_itself(tmp_path: Path, toy_model: Path) -> None:
    with serve(tmp_path, toy_model, variables={"TRITONE_API_KEYS": "sk-first,sk-second"}) as server:
        assert complete(server, "hi")[0] == 401
        assert complete(server, "hi", authorization="Bearer sk-third")[0] == 401
        assert complete(server, "hi", authorization="Bearer sk-second")[0] == 200
        assert [status(server, path) for path in ("/health", "/version", "/metrics", "/v1/models")] == [
            200,
            200,
            401,
            401,
        ]
        stages = psutil.Process(server.server_pid)
        assert "TRITONE_API_KEYS" not in stages.environ()
    assert "sk-" not in server.log.read_text() + server.out.read_text()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_speaks_https(tmp_path: Path, toy_model: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    names = ["-subj", "/CN=localhost", "-addext", f"subjectAltName=IP:{HOST}"]
    files = ["-keyout", str(key), "-out", str(cert)]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files]
    subprocess.run(command, check=True, capture_output=True)
    variables = {"TRITONE_GATEWAY_TLS_CERT": str(cert), "TRITONE_GATEWAY_TLS_KEY": str(key)}
    with serve(tmp_path, toy_model, variables=variables) as server:
        context = ssl.create_default_context(cafile=str(cert))
        with closing(http.client.HTTPSConnection(HOST, server.gateway_port, timeout=10, context=context)) as connection:
            connection.request("GET", "/v1/models")
            assert connection.getresponse().status == 200
        assert f"https://{server.gateway}/v1" in server.out.read_text()


def test_limits_what_comes_in(tmp_path: Path, toy_model: Path) -> None:
    file = tmp_path / "tritone.toml"
    file.write_text("[gateway]\nmax_body_bytes = 1000\nmax_concurrent_requests = 1\noverload_status = 503")
    with serve(tmp_path, toy_model, *SLOW, "--config", str(file)) as server:
        assert complete(server, "a" * 1000)[0] == 413
        with closing(http.client.HTTPConnection(HOST, server.gateway_port, timeout=10)) as connection:
            connection.request("POST", "/v1/completions", iter([b"a" * 600, b"a" * 600]), encode_chunked=True)
            reply = connection.getresponse()
            assert (reply.status, "1000 bytes" in json.loads(reply.read())["error"]["message"]) == (413, True)
            connection.request("GET", "/health")  # the connection can still be used
            assert connection.getresponse().status == 200
        with streams(server, ["a" * 40]) as answers:
            code, headers, _ = complete(server, "hi")
            assert (code, headers["retry-after"]) == (503, "1")
            assert answers[0].result(10) == "a" * 40
        assert complete(server, "hi")[0] == 200


def test_warns_when_anybody_can_reach_it(tmp_path: Path, toy_model: Path) -> None:
    with serve(tmp_path, toy_model, "--gateway-host", "0.0.0.0") as server:
        assert complete(server, "hi")[0] == 200
    assert "WARNING tritone.gateway.server whoever reaches 0.0.0.0 can use the gateway" in server.log.read_text()


def test_a_client_that_says_nothing_is_hung_up_on(tmp_path: Path, toy_model: Path) -> None:
    with serve(tmp_path, toy_model, variables={"TRITONE_GATEWAY_HEADER_TIMEOUT_S": "0.5"}) as server:
        started_s = time.monotonic()
        with socket.create_connection((HOST, server.gateway_port), timeout=5) as connection:
            assert connection.recv(100) == b""
        assert time.monotonic() - started_s < 3
