"""The processes of a server, by stage, what they have started, and their memory.

Runs on the load host, which must be the server's too.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

MIB = 1 << 20

STAGES = ("preprocess", "engine", "postprocess")

NVIDIA_STAGES = {"preprocessing": "preprocess", "tensorrt_llm": "engine", "postprocessing": "postprocess"}
"""Our names for the stages of NVIDIA's layout."""


class Memory(NamedTuple):
    """Resident memory in MiB. `pss_mib` shares out pages that several processes have in common, so that a sum over
    processes counts them once; None if it may not be read."""

    rss_mib: float
    pss_mib: float | None


def server_processes(server_pid: int, model: str) -> dict[str, psutil.Process]:
    """The server and its stages, as "server", "preprocess", "engine", "postprocess", and what the engine started."""
    server = psutil.Process(server_pid)
    stages = {}
    for child in server.children():
        with suppress(psutil.Error):
            if stage := stage_of(child.cmdline(), model):
                stages[stage] = child
    engines = with_children("engine", stages["engine"]) if "engine" in stages else {}
    return {"server": server, **{stage: stages[stage] for stage in STAGES if stage in stages}, **engines}


def stage_of(command: list[str], model: str) -> str | None:
    """The stage that a process runs, from its command line: <stub> <repository>/<model>/<version>/model.py ..."""
    for argument in command[1:2]:
        path = Path(argument)
        if path.name == "model.py":
            folder = path.parent.parent.name
            return NVIDIA_STAGES.get(folder, folder.removeprefix(f"{model}_"))
    return None


def with_children(name: str, process: psutil.Process) -> dict[str, psutil.Process]:
    """The process as `name`, and what it and those have started as "name: what it is", numbered where that is the same.

    vLLM computes in such processes.
    """
    found = {name: process}
    for child in process.children(recursive=True):
        with suppress(psutil.Error):
            title = f"{name}: {title_of(child.cmdline())}"
            same = sum(other.partition(" #")[0] == title for other in found)
            found[f"{title} #{same + 1}" if same else title] = child
    return found


def title_of(command: list[str]) -> str:
    """What a process is, from its command line, which vLLM replaces: VLLM::EngineCore, VLLM::Worker."""
    if any("resource_tracker" in argument for argument in command):
        return "resource tracker"
    return Path(command[0]).name.removeprefix("VLLM::") if command else "unnamed"


def memory_of(processes: Mapping[str, psutil.Process]) -> dict[str, Memory]:
    """The memory of each process now."""
    return {name: _memory(process) for name, process in processes.items()}


def _memory(process: psutil.Process) -> Memory:
    rss_mib = process.memory_info().rss / MIB
    try:
        return Memory(rss_mib, process.memory_full_info().pss / MIB)
    except psutil.AccessDenied:
        return Memory(rss_mib, None)
