"""Which stage a process runs is seen from its command line."""

from __future__ import annotations

import os

import psutil
import pytest

from perf.processes import memory_of, stage_of, title_of, with_children

STUB = "/opt/tritonserver/backends/python/triton_python_backend_stub"


@pytest.mark.parametrize(
    ("command", "stage"),
    [
        ([STUB, "/repo/smollm2_engine/1/model.py", "shm"], "engine"),
        ([STUB, "/repo/smollm2_preprocess/1/model.py", "/repo/smollm2_engine/1/model.py"], "preprocess"),
        ([STUB, "/repo/tensorrt_llm/1/model.py"], "engine"),
        ([STUB, "/repo/preprocessing/1/model.py"], "preprocess"),
        ([STUB, "/repo/postprocessing/1/model.py"], "postprocess"),
        (["tritonserver", "--model-repository=/repo"], None),
        ([], None),
    ],
)
def test_stage_of(command: list[str], stage: str | None) -> None:
    assert stage_of(command, "smollm2") == stage


TRACKER = ["/venv/bin/python", "-c", "from multiprocessing.resource_tracker import main;main(7)"]


@pytest.mark.parametrize(
    ("command", "title"),
    [
        (["VLLM::EngineCore"], "EngineCore"),
        (["/usr/bin/sleep", "1"], "sleep"),
        (TRACKER, "resource tracker"),
        ([], "unnamed"),
    ],
)
def test_title_of(command: list[str], title: str) -> None:
    assert title_of(command) == title


class FakeProcess:
    """What is asked of a psutil.Process."""

    def __init__(self, command: list[str] | None, *children: FakeProcess) -> None:
        self._command = command
        self._children = children

    def cmdline(self) -> list[str]:
        if self._command is None:
            raise psutil.NoSuchProcess(1)
        return self._command

    def children(self, recursive: bool) -> list[FakeProcess]:
        assert recursive
        return list(self._children)


def test_every_process_that_was_started_has_a_name() -> None:
    core, one, two, tracker = (FakeProcess(command) for command in (["VLLM::EngineCore"], ["W"], ["W"], TRACKER))
    engine = FakeProcess(["python"], core, one, two, tracker, FakeProcess(None))
    assert with_children("engine", engine) == {  # type: ignore[arg-type]
        "engine": engine,
        "engine: EngineCore": core,
        "engine: W": one,
        "engine: W #2": two,
        "engine: resource tracker": tracker,
    }


def test_memory_of_this_process() -> None:
    memory = memory_of({"this": psutil.Process(os.getpid())})["this"]
    assert memory.rss_mib > 1
    assert memory.pss_mib is None or 1 < memory.pss_mib <= memory.rss_mib * 1.5
