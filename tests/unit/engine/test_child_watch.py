"""Processes that are watched end with the one that watches over them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from engine.child_watch import ChildWatch

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]
PARENT = """
import subprocess, sys, time
from engine.child_watch import ChildWatch
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
watch = ChildWatch([child.pid])
print(child.pid, watch._process.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(SLEEPER)
    yield process
    process.kill()
    process.wait()


def test_they_live_until_the_watch_is_stopped(sleeper: subprocess.Popen[bytes]) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    watch = ChildWatch([gone.pid, sleeper.pid])
    time.sleep(0.2)
    assert sleeper.poll() is None
    watch.stop()
    assert sleeper.wait(5) == -9


def test_they_end_with_a_parent_that_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE)
    assert parent.stdout
    with parent.stdout as told:
        processes = [psutil.Process(int(pid)) for pid in told.readline().split()]
    assert all(process.is_running() for process in processes)
    parent.kill()
    parent.wait()
    gone, alive = psutil.wait_procs(processes, 5)
    assert (len(gone), alive) == (2, [])
