"""One tritonserver with its stage processes: started, looked at, ended. Runs in the launcher's process.

All of them are one process group, so that Ctrl-C in a terminal reaches the launcher alone and a kill reaches them all.
The server is told to end when the launcher dies, and orphaned stages become the launcher's children, so that it can
reap them where process 1 would not.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from tritone.errors import TritoneError
from tritone.server_output import ServerOutput

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_REAP_TIMEOUT_S = 5.0
_STUB_NAME = "triton_python"  # the kernel cuts process names at 15 characters


class ServerError(TritoneError):
    """The server could not be started, did not become ready, or died too often."""


class Stage(NamedTuple):
    """A stage's process and the name of its Triton model."""

    process: psutil.Process
    model: str

    @property
    def is_dead(self) -> bool:
        """Whether it has ended; nobody need have reaped it."""
        try:
            return not self.process.is_running() or self.process.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True


class ServerProcess:
    """A running tritonserver. `stages` are its stage processes as `look_for_stages` has seen them, by pid."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], is_gpu_host: bool) -> None:
        """Start it; to be called from the main thread, whose end the kernel takes for the launcher's."""
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        launcher = os.getpid()
        try:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: end_with(launcher),
            )
        except OSError as error:
            raise ServerError(f"{command[0]} cannot be started: {error.strerror}") from error
        assert self._process.stdout
        self.output = ServerOutput(self._process.stdout, is_gpu_host)
        self.pid = self._process.pid
        self.stages: dict[int, Stage] = {}

    def look_for_stages(self) -> None:
        """Find the stage processes that have been started."""
        with suppress(psutil.Error):
            for child in psutil.Process(self.pid).children():
                if child.pid not in self.stages and (model := _model_of(child)):
                    self.stages[child.pid] = Stage(child, model)

    def death(self) -> str:
        """What has died, the server itself or a stage, as a sentence; "" while all live."""
        status = self._process.poll()
        if status is not None:
            return f"tritonserver {_ending(status)}"
        dead = self.dead_stages()
        return f"the process of {' and '.join(dead)} has died" if dead else ""

    def dead_stages(self) -> list[str]:
        """The models of the stages whose processes have ended."""
        return sorted(stage.model for stage in self.stages.values() if stage.is_dead)

    def terminate(self) -> None:
        """Ask the server to finish what it does and end."""
        self._process.terminate()

    def has_ended(self) -> bool:
        """Whether the server has ended; stages may linger."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """End the server and its stages at once; returns when they are gone and their output has been written."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        _reap_group(self.pid)
        self.output.join()


def end_with(launcher: int) -> None:
    """In the new process: end when the launcher does, even if it has already."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != launcher:
        os._exit(1)


def _model_of(process: psutil.Process) -> str:
    """The model of a stage's process, "" if it is another process or has no command line (any more)."""
    with suppress(psutil.Error):
        arguments = process.cmdline()
        if process.name().startswith(_STUB_NAME) and len(arguments) > 1:
            return Path(arguments[1]).parent.parent.name  # <model>/<version>/model.py
    return ""


def _ending(status: int) -> str:
    return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def _reap_group(group: int) -> None:
    deadline_s = time.monotonic() + _REAP_TIMEOUT_S
    with suppress(ChildProcessError):  # none is left
        while time.monotonic() < deadline_s:
            if os.waitpid(-group, os.WNOHANG) == (0, 0):
                time.sleep(0.01)
