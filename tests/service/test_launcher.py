"""The launcher against the real Triton: what it starts, what it says, and that nothing is left of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.service.grpc_client import Stream
from tests.service.serving import (
    HOST,
    Server,
    assert_gone,
    generate,
    generate_stream,
    launched,
    processes_of,
    serve,
    wait_until,
)
from tritone import run_dir

pytestmark = pytest.mark.service

STREAMS = 4
Front = Callable[..., Iterable[dict[str, Any]]]


class Streams:
    """Answers of so many characters that are being streamed, each in a thread of its own."""

    def __init__(self, server: Server, characters: int, front: Front = generate_stream) -> None:
        self._pool = ThreadPoolExecutor(STREAMS)
        self._server = server
        self._front = front
        self.texts = ["abcd"[index] * characters for index in range(STREAMS)]
        self._futures = [self._pool.submit(self._stream, text) for text in self.texts]
        wait_until(lambda: server.run.live_streams() == STREAMS, 10)

    def _stream(self, text: str) -> list[dict[str, Any]]:
        return list(self._front(self._server, "toy", text_input=text))

    def results(self, timeout_s: float) -> list[str | BaseException]:
        """The texts, or what went wrong; an error from the server's last event counts as one."""
        results = [self._result(future, timeout_s) for future in self._futures]
        self._pool.shutdown()
        return results

    def _result(self, future: Future[list[dict[str, Any]]], timeout_s: float) -> str | BaseException:
        if error := future.exception(timeout_s):
            return error
        events = future.result()
        if events and "error" in events[-1]:
            return RuntimeError(events[-1]["error"])
        return "".join(event["text_output"] for event in events)


def test_serves_until_told_to_stop(tmp_path: Path, toy_model: Path) -> None:
    with serve(tmp_path, toy_model, "--set", "tokens_per_second=1000") as server:
        assert generate(server, "toy", text_input="hello")["text_output"] == "hello"
        answer = generate(server, "toy", messages=json.dumps([{"role": "user", "content": "hi"}]))
        assert answer["text_output"] == "[user]hi"  # the script ends where the template put an end token
        state = json.loads((server.run.path / "state.json").read_text())
        assert state["launcher"]["pid"] == server.process.pid
    printed = server.out.read_text()
    assert f"http://{server.http}/v2/models/toy/generate_stream" in printed
    assert f"tritone chat --url {server.grpc}" in printed


def grpc_stream(server: Server, model: str, **inputs: str) -> Iterable[dict[str, Any]]:
    return Stream(server.grpc, model, **inputs)


@pytest.mark.parametrize("front", [generate_stream, grpc_stream])
def test_lets_open_streams_end(tmp_path: Path, toy_model: Path, front: Front) -> None:
    with serve(tmp_path, toy_model, "--set", "tokens_per_second=40") as server:
        streams = Streams(server, 80, front)
        assert server.stop() == 0
        assert streams.results(1) == streams.texts


def test_a_second_signal_cuts_streams_off(tmp_path: Path, toy_model: Path) -> None:
    with serve(tmp_path, toy_model, "--set", "tokens_per_second=10") as server:
        streams = Streams(server, 1000)
        os.kill(server.process.pid, signal.SIGINT)
        time.sleep(0.5)
        os.kill(server.process.pid, signal.SIGINT)
        assert server.process.wait(5) == 1
        assert all(isinstance(result, OSError) for result in streams.results(1))
    assert f"{STREAMS} open streams were cut off" in server.log.read_text()


def test_an_idle_connection_does_not_hold_up_the_end(tmp_path: Path, toy_model: Path) -> None:
    with serve(tmp_path, toy_model) as server, socket.create_connection((HOST, server.http_port)):
        started_s = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - started_s < 12


@pytest.mark.parametrize("stage", ["preprocess", "engine", "postprocess"])
def test_b56_a_killed_stage_ends_its_streams_and_comes_back(tmp_path: Path, toy_model: Path, stage: str) -> None:
    with serve(tmp_path, toy_model, "--set", "tokens_per_second=20") as server:
        streams = Streams(server, 1000)
        before = server.server_pid
        os.kill(server.stage_pid(stage), signal.SIGKILL)
        results = streams.results(5)
        assert all(isinstance(result, (OSError, RuntimeError)) for result in results), results
        assert_serves_again(server, before)
    assert f"the process of toy_{stage} has died" in server.log.read_text()


def test_a_killed_server_comes_back(tmp_path: Path, toy_model: Path) -> None:
    with serve(tmp_path, toy_model) as server:
        before = server.server_pid
        os.kill(before, signal.SIGKILL)
        assert_serves_again(server, before)
    assert "tritonserver was killed by SIGKILL" in server.log.read_text()


def test_an_engine_that_dies_comes_back(tmp_path: Path, toy_model: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"prompt_ids": list(b"die"), "steps": [[97]], "fault": "die", "fault_step": 1}]))
    with serve(tmp_path, toy_model, "--set", f"script_file={script}") as server:
        before = server.server_pid
        assert "the script told it to" in generate(server, "toy", text_input="die")["error"]
        assert_serves_again(server, before)
    assert "the process of toy_engine has died" in server.log.read_text()


def test_the_server_goes_with_a_killed_launcher_and_the_next_cleans_up(tmp_path: Path, toy_model: Path) -> None:
    with launched(tmp_path, toy_model) as first:
        first.wait_until_ready()
        left = first.run.path
        first.process.kill()
        first.process.wait()
        wait_until(lambda: not processes_of(tmp_path), 15)
        assert left.exists()
        with serve(tmp_path, toy_model):
            assert not left.exists()
        assert_gone(first)


def test_kills_what_outlived_a_killed_launcher(tmp_path: Path, toy_model: Path) -> None:
    with launched(tmp_path, toy_model) as first:
        first.wait_until_ready()
        hung = [psutil.Process(first.server_pid), psutil.Process(first.stage_pid("engine"))]
        for process in hung:
            process.suspend()
        first.process.kill()
        first.process.wait()
        with serve(tmp_path, toy_model):
            assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in hung)
        assert_gone(first)


def test_names_a_port_that_is_in_use(tmp_path: Path, toy_model: Path) -> None:
    with (
        socket.create_server((HOST, 0)) as taken,
        launched(tmp_path, toy_model, "--grpc-port", str(taken.getsockname()[1])) as server,
    ):
        assert server.process.wait(20) == 1
        port = taken.getsockname()[1]
    said = server.log.read_text()
    assert f"--grpc-port {port} is in use by " in said
    assert f"(process {os.getpid()})" in said
    assert "loading" not in said
    assert_gone(server)


def test_names_the_model_that_does_not_load_and_why(tmp_path: Path, toy_model: Path) -> None:
    with launched(tmp_path, toy_model, "--set", "script_file=/no/such/file") as server:
        assert server.process.wait(60) == 1
    assert server.log.read_text().splitlines()[-1] == (
        "Error: toy_engine did not load: FileNotFoundError: [Errno 2] No such file or directory: '/no/such/file'"
    )
    assert_gone(server)


def test_names_a_stage_that_dies_while_loading(tmp_path: Path, toy_model: Path) -> None:
    script = tmp_path / "never-written"
    os.mkfifo(script)  # the engine waits for it
    with launched(tmp_path, toy_model, "--set", f"script_file={script}") as server:
        wait_until(lambda: b"loaded 'toy_preprocess'" in server.log.read_bytes(), 30)
        os.kill(server.stage_pid("engine"), signal.SIGKILL)
        assert server.process.wait(10) == 1
    said = server.log.read_text().splitlines()[-1]  # in Triton's words if it notices in time, else in ours
    assert said.startswith(
        ("Error: toy_engine did not load: Stub process", "Error: the process of toy_engine has died")
    )
    assert_gone(server)


def test_logs_json_lines_only(tmp_path: Path, toy_model: Path) -> None:
    with serve(tmp_path, toy_model, "--log-format", "json", "--log-level", "debug") as server:
        generate(server, "toy", text_input="hi")
    records = [json.loads(line) for line in server.log.read_text().splitlines()]
    assert all(set(record) == {"time", "level", "source", "message"} for record in records)
    assert {"triton.server", "tritone.launcher", "tritone.supervisor"} <= {record["source"] for record in records}
    assert server.out.read_text() == ""


def assert_serves_again(server: Server, old_server_pid: int) -> None:
    """Another server answers than the one that died, and of that one nothing is left."""

    def is_new() -> bool:
        with suppress(FileNotFoundError, ValueError):
            return server.server_pid != old_server_pid and server.is_ready()
        return False

    wait_until(is_new, 30)
    assert generate(server, "toy", text_input="again")["text_output"] == "again"
    servers = run_dir.processes_of(server.run.path)  # the gateway is not one, and stays
    parents = {process.ppid() for process in servers if process.pid != server.server_pid}
    assert parents == {server.server_pid}
    assert not [
        child for child in psutil.Process(server.process.pid).children() if child.status() == psutil.STATUS_ZOMBIE
    ]
