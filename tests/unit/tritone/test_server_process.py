"""The process handling, with shell scripts for the server and its stages."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tritone.server_process import ServerError, ServerProcess

Start = Callable[[str], ServerProcess]
LIBC = ctypes.CDLL(None)
PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture(scope="module", autouse=True)
def no_subreaper_afterwards() -> Iterator[None]:
    """This process is that of all tests, and others are about what a launcher's orphans do."""
    yield
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a shell script as server; `stage m_engine` in it starts a process that looks like a stage."""
    stub = tmp_path / "triton_python_backend_stub"
    stub.symlink_to(os.path.realpath("/bin/sh"))
    for model in ("m_engine", "m_postprocess"):
        script = tmp_path / model / "1" / "model.py"
        script.parent.mkdir(parents=True)
        script.write_text("kill -STOP $$")
    stage = f"stage() {{ {stub} {tmp_path}/$1/1/model.py & }}\n"
    started: list[ServerProcess] = []

    def run(script: str) -> ServerProcess:
        started.append(ServerProcess(["sh", "-c", stage + script], dict(os.environ), is_gpu_host=False))
        return started[-1]

    yield run
    for server in started:
        server.kill()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_finds_the_stages_and_notices_the_death_of_one(start: Start) -> None:
    server = start("stage m_engine; stage m_postprocess; sleep 60 & wait")
    wait_until(lambda: server.look_for_stages() or len(server.stages) == 2)
    assert sorted(stage.model for stage in server.stages.values()) == ["m_engine", "m_postprocess"]
    assert server.death() == ""
    engine = next(pid for pid, stage in server.stages.items() if stage.model == "m_engine")
    os.kill(engine, signal.SIGKILL)
    wait_until(lambda: server.death() != "")
    assert server.death() == "the process of m_engine has died"
    assert server.dead_stages() == ["m_engine"]


def test_a_stage_that_nobody_reaps_is_dead(start: Start) -> None:
    server = start(f"stage m_engine; exec {sys.executable} -c 'import time; time.sleep(60)'")
    wait_until(lambda: server.look_for_stages() or bool(server.stages))
    (pid,) = server.stages
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    assert server.death() == "the process of m_engine has died"


@pytest.mark.parametrize(
    ("script", "death"),
    [("exit 3", "tritonserver ended with status 3"), ("kill -9 $$", "tritonserver was killed by SIGKILL")],
)
def test_says_how_the_server_ended(start: Start, script: str, death: str) -> None:
    server = start(script)
    wait_until(server.has_ended)
    assert server.death() == death


def test_kill_ends_and_reaps_the_whole_group(start: Start) -> None:
    server = start("stage m_engine; stage m_postprocess; wait")
    wait_until(lambda: server.look_for_stages() or len(server.stages) == 2)
    server.kill()
    assert [pid for pid in (server.pid, *server.stages) if psutil.pid_exists(pid)] == []


def test_every_word_has_been_logged_when_kill_returns(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    server = start("echo I engine: out; echo I engine: err >&2; printf last; exit 1")
    wait_until(server.has_ended)
    server.kill()
    assert [record.getMessage() for record in caplog.records] == ["out", "err", "last"]


def test_hears_no_ctrl_c_of_the_terminal(start: Start) -> None:
    server = start("sleep 60")
    assert os.getpgid(server.pid) == server.pid != os.getpgid(0)
    assert os.getsid(server.pid) == server.pid


def test_a_server_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=r"tritonserver cannot be started: No such file or directory"):
        ServerProcess([str(tmp_path / "tritonserver")], {}, is_gpu_host=False)
