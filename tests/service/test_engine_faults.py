"""Engines that die, and servers that end, with streams open: what clients see, and that nothing is left behind."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from .engines import ENGINES, ENVIRONMENT, launched_with, needs_environment, serve_with
from .grpc_client import text_of
from .serving import Server, assert_gone, generate, generate_stream, launched, processes_of, wait_until
from .successor_model import write_successor_model

pytestmark = pytest.mark.service

MODEL = "toy"
OPTIONS = ("--max-num-seqs", "4", "--set", "heartbeat_s=0.3")
BACK_WITHIN_S = 120.0


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_successor_model(tmp_path_factory.mktemp("models") / MODEL)


class Endless:
    """Answers without an end, each read in a thread of its own."""

    def __init__(self, server: Server, count: int, **inputs: Any) -> None:
        self._pool = ThreadPoolExecutor(count)
        self._server = server
        self._futures = [self._pool.submit(self._read, inputs) for _ in range(count)]
        wait_until(lambda: server.run.live_streams() == count, 10)

    def _read(self, inputs: dict[str, Any]) -> list[dict[str, Any]]:
        return list(generate_stream(self._server, MODEL, text_input="A", ignore_eos=True, **inputs))

    def results(self, timeout_s: float) -> list[list[dict[str, Any]] | BaseException]:
        """The events of each, or what went wrong."""
        results = [self._result(future, timeout_s) for future in self._futures]
        self._pool.shutdown()
        return results

    def _result(self, future: Future[list[dict[str, Any]]], timeout_s: float) -> list[dict[str, Any]] | BaseException:
        return future.exception(timeout_s) or future.result()


def engine_processes(server: Server) -> list[psutil.Process]:
    """The processes that the engine stage has started: vLLM's, none of another engine."""
    return psutil.Process(server.stage_pid("engine")).children(recursive=True)


def processes_of_engines(server: Server) -> list[psutil.Process]:
    """Every process of the launcher that is neither a server, nor a stage, nor a gateway."""
    known = ("tritonserver", "triton_python", "tritone.gateway")
    return [
        process for process in processes_of(server.runtime_dir) if not any(name in described(process) for name in known)
    ]


def described(process: psutil.Process) -> str:
    return " ".join([process.name(), *process.cmdline()])


def is_another_server(server: Server, than_pid: int) -> bool:
    with suppress(FileNotFoundError, ValueError):
        return server.server_pid != than_pid and server.is_ready()
    return False


def is_broken_off(result: list[dict[str, Any]] | BaseException) -> bool:
    return isinstance(result, OSError) if isinstance(result, BaseException) else "error" in result[-1]


@pytest.mark.parametrize("engine", ENGINES)
def test_killed_engine_comes_back_and_streams_that_are_open_at_the_end_are_answered(
    engine: str, model: Path, tmp_path: Path
) -> None:
    with serve_with(engine, tmp_path, model, *OPTIONS) as server:
        before, streams = server.server_pid, Endless(server, 2)
        killed_s = time.monotonic()
        cores = [process for process in engine_processes(server) if "EngineCore" in " ".join(process.cmdline())]
        assert len(cores) == (engine == "vllm")
        os.kill(cores[0].pid if cores else server.stage_pid("engine"), signal.SIGKILL)
        assert all(is_broken_off(result) for result in streams.results(10))
        wait_until(lambda: not server.is_ready(), 10 - (time.monotonic() - killed_s))
        wait_until(lambda: is_another_server(server, before), BACK_WITHIN_S)
        assert generate(server, MODEL, text_input="w")["text_output"] == "xyz"
        assert len(engine_processes(server)) == len(processes_of_engines(server))

        streams = Endless(server, 2, max_tokens=1000)
        assert server.stop() == 0
        for result in streams.results(1):
            assert not isinstance(result, BaseException), result
            assert (len(text_of(result)), result[-1]["finish_reason"]) == (1000, "length")


def test_nothing_outlives_a_killed_server(model: Path, tmp_path: Path) -> None:
    with launched(tmp_path, model, *OPTIONS, engine="openvino") as server:
        server.wait_until_ready()
        before, streams = server.server_pid, Endless(server, 1)
        old = [psutil.Process(before), *psutil.Process(before).children(recursive=True)]
        os.kill(before, signal.SIGKILL)
        assert all(is_broken_off(result) for result in streams.results(10))
        wait_until(lambda: is_another_server(server, before), BACK_WITHIN_S)
        assert not any(process.is_running() for process in old)


@pytest.mark.parametrize("engine", [one for one in ENGINES if "transformers" not in one.values])  # it starts no process
def test_nothing_outlives_a_killed_launcher(engine: str, model: Path, tmp_path: Path) -> None:
    with launched_with(engine, tmp_path, model, *OPTIONS, "--drain-timeout", "2") as server:
        streams = Endless(server, 1)
        server.process.kill()
        server.process.wait()
        assert all(is_broken_off(result) for result in streams.results(25))
        wait_until(lambda: not processes_of(tmp_path), 20)


@needs_environment
def test_setting_that_vllm_does_not_have_is_refused_with_the_nearest(model: Path, tmp_path: Path) -> None:
    """What else it refuses, and how, is in tests/engines."""
    given = ("--set", "enforce_eager=true", "--set", "gpu_memory_utilisation=0.5")
    with launched(tmp_path, model, "--engine-env", str(ENVIRONMENT), *given, engine="vllm") as server:
        assert server.process.wait(90) == 1
    reason = r"gpu_memory_utilisation is no setting of .*did you mean gpu_memory_utilization\?"
    assert re.search(f"^Error: toy_engine did not load: .*{reason}", server.log.read_text().splitlines()[-1])
    assert_gone(server)


def test_environment_without_the_engine_is_refused_before_anything_is_loaded(model: Path, tmp_path: Path) -> None:
    own = Path(sys.prefix)  # it has neither PyTorch nor vLLM
    with launched(tmp_path, model, "--engine-env", str(own), engine="transformers") as server:
        assert server.process.wait(30) == 1
    last = server.log.read_text().splitlines()[-1]
    assert last.startswith(f"Error: the transformers engine needs torch, not found in {own}: docs/engines.md says how")
    assert_gone(server)
