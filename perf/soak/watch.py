"""What a server holds: memory, handles, threads, shared memory, streams. Runs on the server's host."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from perf.processes import MIB, stage_of, title_of
from tritone.errors import TritoneError
from tritone.run_dir import VARIABLE, RunDir

SHM = Path("/dev/shm")


class Measure(NamedTuple):
    """A figure that must not grow. Both must be exceeded: `per_hour` for sure, and `least` over all of the time."""

    unit: str
    per_hour: float
    least: float


MEASURES = {
    "memory": Measure("MiB", 16, 4),
    "handles": Measure("handles", 10, 4),
    "threads": Measure("threads", 4, 2),
    "shared memory": Measure("MiB", 16, 4),
    "shared memory files": Measure("files", 4, 2),
}

Held = dict[str, dict[str, float]]
"""Values by measure, by process; what is the machine's own is under MACHINE."""

MACHINE = "machine"


def find_server(port: int) -> int:
    """The process that listens on a port here; where Tritone's launcher started it, the launcher.

    Raises TritoneError where nobody listens.
    """
    listeners = [
        one.pid
        for one in psutil.net_connections("tcp")
        if one.status == psutil.CONN_LISTEN and one.laddr.port == port and one.pid
    ]
    if not listeners:
        raise TritoneError(f"no process here listens on port {port}: name the server's with --server-pid")
    process = psutil.Process(listeners[0])
    for parent in process.parents():
        with suppress(psutil.Error):
            if any(Path(argument).name in ("tritone", "gateway") for argument in parent.cmdline()[:3]):
                process = parent
    return int(process.pid)


def processes_of(pids: Sequence[int], model: str) -> Iterator[tuple[str, psutil.Process]]:
    """The processes, and all that they have started, by names; those of the same name are numbered. TritoneError where
    one of `pids` is gone."""
    seen: dict[str, int] = {}
    for pid in pids:
        try:
            root = psutil.Process(pid)
            family = [root, *root.children(recursive=True)]
        except psutil.Error as error:
            raise TritoneError(f"the server's process {pid} is gone") from error
        for process in family:
            with suppress(psutil.Error):
                command = process.cmdline()
                name = stage_of(command, model) or _title(command)
                seen[name] = seen.get(name, 0) + 1
                yield (name if seen[name] == 1 else f"{name} #{seen[name]}"), process


def _title(command: Sequence[str]) -> str:
    if any(Path(argument).name == "tritone" for argument in command[1:3]):
        return "launcher"
    if "-m" in command[:-1]:
        return command[list(command).index("-m") + 1]
    return title_of(list(command))


def held(pids: Sequence[int], model: str) -> Held:
    """What all of them hold now. Memory is PSS where it may be read, RSS otherwise."""
    found: Held = {}
    for name, process in processes_of(pids, model):
        with suppress(psutil.Error):
            found[name] = {
                "memory": _memory_mib(process),
                "handles": float(process.num_fds()),
                "threads": float(process.num_threads()),
            }
    room = os.statvfs(SHM)
    used_bytes = (room.f_blocks - room.f_bfree) * room.f_frsize
    found[MACHINE] = {"shared memory": used_bytes / MIB, "shared memory files": float(sum(1 for _ in SHM.iterdir()))}
    return found


def _memory_mib(process: psutil.Process) -> float:
    try:
        return float(process.memory_full_info().pss) / MIB
    except psutil.AccessDenied:
        return float(process.memory_info().rss) / MIB


def run_dirs(pids: Sequence[int], model: str) -> list[RunDir]:
    """The run folders of Tritone's servers among the processes: they tell the live streams."""
    paths = set()
    for _, process in processes_of(pids, model):
        with suppress(psutil.Error):
            if path := process.environ().get(VARIABLE):
                paths.add(Path(path))
    return [RunDir(path) for path in sorted(paths) if path.is_dir()]


def live_streams(folders: Sequence[RunDir]) -> int | None:
    """Rows in use of all stream tables; None where there is none of Tritone's."""
    return sum(folder.live_streams() for folder in folders) if folders else None


def flat(found: Held) -> Mapping[tuple[str, str], float]:
    """By (process, measure)."""
    return {(process, measure): value for process, values in found.items() for measure, value in values.items()}
