"""A process of a benchmark's own: its output kept in a file, ended with all that it has started.

Runs on the load host.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from urllib.request import urlopen

import psutil

from engine.process_check import is_alive
from tritone.errors import TritoneError

END_TIMEOUT_S = 20.0
MISLEADING = ("PYTHONPATH", "PYTHONHOME")  # to another Python


@contextmanager
def child_process(
    python: Path,
    arguments: Sequence[str],
    folder: Path,
    log: Path,
    files: Sequence[int] = (),
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[subprocess.Popen[bytes]]:
    """`python` with `arguments`, started in `folder`; its output goes to the end of `log`.

    It inherits the descriptors `files` and has the environment `variables` besides ours. At the end it is told to end,
    and killed with all that it has started if any of that is still there after END_TIMEOUT_S.
    """
    environment = {name: value for name, value in os.environ.items() if name not in MISLEADING}
    environment["PATH"] = f"{python.parent}{os.pathsep}{environment.get('PATH', os.defpath)}"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [str(python), *arguments],
            cwd=folder,
            env={**environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=files,
            start_new_session=True,  # so that a kill reaches its children, and Ctrl-C the benchmark alone
        )
    try:
        yield process
    finally:
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_TIMEOUT_S)
        wait_until_gone(children, END_TIMEOUT_S)  # one of vLLM's frees its shared memory after all others
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        wait_until_gone(children, END_TIMEOUT_S)


def wait_until_gone(processes: Sequence[psutil.Process], timeout_s: float) -> None:
    """Return when all have ended, or after `timeout_s`; some may not be ours to reap."""
    deadline_s = time.monotonic() + timeout_s
    while any(is_alive(process.pid) for process in processes) and time.monotonic() < deadline_s:
        time.sleep(0.02)


def wait_until_answers(url: str, process: subprocess.Popen[bytes], what: str, timeout_s: float) -> None:
    """Wait until a GET of `url` succeeds. Raises TritoneError where the process ends before, or takes too long."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            with urlopen(url, timeout=5):
                return
        except OSError as error:
            if process.poll() is not None:
                raise TritoneError(f"{what} ended with status {process.returncode} before it was ready") from error
            if time.monotonic() > deadline_s:
                raise TritoneError(f"{what} is not ready after {timeout_s:g} s: {error}") from error
            time.sleep(0.05)


def last_words(log: Path) -> str:
    """The end of a log, in one line."""
    lines = log.read_text("utf-8", "replace").split("\n")
    return " ".join(line.strip() for line in lines if line.strip())[-500:] or "it said nothing"
