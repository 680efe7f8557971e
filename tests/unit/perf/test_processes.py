"""Which stage a process runs is seen from its command line."""

from __future__ import annotations

import os

import psutil
import pytest

from perf.processes import memory_of, stage_of

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


def test_memory_of_this_process() -> None:
    memory = memory_of({"this": psutil.Process(os.getpid())})["this"]
    assert memory.rss_mib > 1
    assert memory.pss_mib is None or 1 < memory.pss_mib <= memory.rss_mib * 1.5
