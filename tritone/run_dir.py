"""The folder of one running launcher: what must be gone when it has ended, and how a later one finds what is left.

Runs in our process. A launcher holds a lock on its folder for as long as it lives. The kernel drops the lock however
it ends, so a folder without one is a dead launcher's: its processes are known by the folder in their environment, its
shared memory by the prefix in their names.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tritone.errors import TritoneError

logger = logging.getLogger(__name__)

VARIABLE = "TRITONE_RUN_DIR"  # the stages read it too: their stream table lies in the run folder
DRAINING = "draining"

_SHM = Path("/dev/shm")
_KILL_TIMEOUT_S = 5.0


class RunDirError(TritoneError):
    """There is no safe place for the run folder."""


class RunDir:
    """The folder `path` of this launcher, and the prefix of its shared memory's names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shm_prefix = f"tritone-{path.name}-"

    @property
    def repository(self) -> Path:
        """Where the model repository is assembled."""
        return self.path / "repository"

    @property
    def gateway(self) -> Path:
        """The gateway's own part: its processes, named by it, are not the server's."""
        return self.path / "gateway"

    def write_state(self, state: Mapping[str, Any]) -> None:
        """Note for whoever looks into the folder what runs here."""
        draft = self.path / "state.json.new"
        draft.write_text(json.dumps(state, indent=2) + "\n", "utf-8")
        draft.replace(self.path / "state.json")

    def start_draining(self) -> None:
        """Ask the engine stage, which looks for this file, to refuse new requests."""
        (self.path / DRAINING).touch()

    def live_streams(self) -> int:
        """How many streams the server holds: rows of a stream table, four 64-bit words each, that do not start with 0.

        The last row is no stream's.
        """
        tables = [path.read_bytes() for path in self.path.glob("streams-*")]
        return sum(generation != 0 for table in tables for generation in memoryview(table).cast("Q")[:-4:4])

    def clear_server(self) -> None:
        """Remove what a server leaves behind: processes, shared memory, stream tables."""
        kill_processes(self.path)
        for entry in [*_SHM.glob(f"{self.shm_prefix}*"), *self.path.glob("streams-*")]:
            entry.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove all of it."""
        self.clear_server()
        kill_processes(self.gateway)
        shutil.rmtree(self.path, ignore_errors=True)


@contextmanager
def run_dir() -> Iterator[RunDir]:
    """A new run folder, gone at the end with everything that belongs to it. What dead launchers left goes first."""
    with _locked(base_dir(), fcntl.LOCK_EX):
        remove_stale()
        path = base_dir() / f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        path.mkdir(0o700)
        lock = _open_locked(path, fcntl.LOCK_EX)
    run = RunDir(path)
    try:
        yield run
    finally:
        run.remove()
        os.close(lock)


def base_dir() -> Path:
    """The folder of all run folders of this user, made if need be. Raises RunDirError if others can write there."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    usable = runtime and os.access(runtime, os.W_OK | os.X_OK)
    base = Path(runtime, "tritone") if runtime and usable else Path(tempfile.gettempdir(), f"tritone-{os.getuid()}")
    try:
        base.mkdir(0o700, exist_ok=True)
        found = base.lstat()
    except OSError as error:
        raise RunDirError(f"the run folder {base} cannot be made: {error.strerror}") from error
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise RunDirError(f"the run folder {base} can be written by others; remove it, or set XDG_RUNTIME_DIR")
    return base


def remove_stale() -> None:
    """Remove the run folders of dead launchers with their processes and shared memory. The base must be locked."""
    for path in sorted(entry for entry in base_dir().iterdir() if entry.is_dir()):
        try:
            lock = _open_locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue  # its launcher lives
        logger.info("removing what a launcher that was killed has left in %s", path)
        RunDir(path).remove()
        os.close(lock)


def kill_processes(path: Path) -> None:
    """Kill every process that was started with the run folder `path`, and wait until they are gone."""
    doomed = list(processes_of(path))
    for process in doomed:
        with suppress(psutil.Error):
            process.kill()
    _, alive = psutil.wait_procs(doomed, _KILL_TIMEOUT_S)
    for process in alive:
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            logger.warning("process %d does not end", process.pid)


def processes_of(path: Path) -> Iterator[psutil.Process]:
    """The processes whose environment names the run folder `path`; this one is not among them."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(VARIABLE) == str(path):
                yield process


def _open_locked(path: Path, operation: int) -> int:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, operation)
    except BaseException:
        os.close(handle)
        raise
    return handle


@contextmanager
def _locked(path: Path, operation: int) -> Iterator[None]:
    handle = _open_locked(path, operation)
    try:
        yield
    finally:
        os.close(handle)
