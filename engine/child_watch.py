"""Sees to it that the processes an engine has started do not outlive the stage, however that ends.

A process of its own waits for the end of a pipe, which is the end of this one, killed or not, and kills the others.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

# A process that was opened before is the same one at the end, whoever has its number by then.
_WATCH = """
import os, signal, sys
opened = []
for pid in map(int, sys.argv[1:]):
    try:
        opened.append(os.pidfd_open(pid))
    except ProcessLookupError:
        pass
print("watching", flush=True)
sys.stdin.buffer.read()
for process in opened:
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""


class ChildWatch:
    """Watches over the processes `pids` from now on, until it is stopped."""

    def __init__(self, pids: Sequence[int]) -> None:
        command = [sys.executable, "-I", "-c", _WATCH, *map(str, pids)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout
        self._process.stdout.readline()

    def stop(self) -> None:
        """Kill what is left of them, and end the watch."""
        self._process.communicate()
