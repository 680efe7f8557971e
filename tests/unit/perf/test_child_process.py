"""A process of a benchmark's own leaves its words behind, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.process_check import is_alive
from perf import child_process as module
from perf.child_process import child_process, last_words, wait_until_answers
from tritone.errors import TritoneError

PYTHON = Path(sys.executable)
WITH_CHILD = """
import os, subprocess, sys, time
print(os.environ["GIVEN"], os.environ["PATH"].split(os.pathsep)[0], "PYTHONPATH" in os.environ, flush=True)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""


def lines_of(log: Path, count: int) -> list[str]:
    deadline_s = time.monotonic() + 20
    while len(lines := log.read_text().splitlines()) < count:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    return lines


def test_is_ended_with_what_it_has_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "END_TIMEOUT_S", 0.2)
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    log = tmp_path / "log"
    log.write_text("before\n")
    with child_process(PYTHON, ["-c", WITH_CHILD], tmp_path, log, variables={"GIVEN": "value"}) as process:
        before, environment, child = lines_of(log, 3)
        assert psutil.Process(int(child)).ppid() == process.pid
    assert (before, environment) == ("before", f"value {PYTHON.parent} False")
    assert process.returncode == -15
    assert not is_alive(int(child))


class FakeChild:
    """What is asked of a Popen."""

    def __init__(self, returncode: int | None) -> None:
        self.returncode = returncode

    def poll(self) -> int | None:
        return self.returncode


def no_answer(url: str, timeout: float) -> Any:
    raise OSError("refused")


def test_waiting_ends_with_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "urlopen", no_answer)
    ended: Any = FakeChild(3)
    with pytest.raises(TritoneError, match="the gateway ended with status 3 before it was ready"):
        wait_until_answers("http://x", ended, "the gateway", 60)


def test_waiting_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "urlopen", no_answer)
    running: Any = FakeChild(None)
    with pytest.raises(TritoneError, match=r"the gateway is not ready after 0.1 s: refused"):
        wait_until_answers("http://x", running, "the gateway", 0.1)


def test_last_words(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("")
    assert last_words(log) == "it said nothing"
    log.write_text("x" * 600 + "\n\n  the end\n")
    assert last_words(log) == "x" * 492 + " the end"


def test_what_cannot_be_started_is_an_error_of_its_own(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError),
        child_process(tmp_path / "python", [], tmp_path, tmp_path / "log") as process,
    ):
        assert isinstance(process, subprocess.Popen)
