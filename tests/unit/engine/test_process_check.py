"""A zombie does not count as alive."""

from __future__ import annotations

import os
import subprocess
import sys

from engine.process_check import is_alive


def test_running_process_is_alive() -> None:
    assert is_alive(os.getpid())


def test_zombie_is_not() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(child.pid)
    child.wait()
    assert not is_alive(child.pid)
