from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from build_engines.errors import BuildError
from build_engines.gpus import GIB, GPUS, MIB, Gpu, detect_gpus, find_gpu, parse_memory

NVML = """
#include <string.h>
static int up = 0;
int nvmlInit_v2(void) { up = 1; return 0; }
int nvmlShutdown(void) { up = 0; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = COUNT; return up ? 0 : 1; }
int nvmlDeviceGetHandleByIndex_v2(unsigned place, void **handle) { *handle = (void *)(long)(place + 7); return 0; }
int nvmlDeviceGetName(void *handle, char *name, unsigned length) {
    if (length < 64) return 2;
    strcpy(name, (long)handle == 7 ? "NVIDIA First" : "NVIDIA Second");
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long *sizes) {
    sizes[0] = (long)handle * 1048576ull; sizes[1] = 1; sizes[2] = 2;
    return STATUS;
}
int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) { *major = 8; *minor = 9; return 0; }
"""


def library(folder: Path, count: int = 2, status: int = 0) -> str:
    """A stand-in for NVML: these functions with the signatures of nvml.h 12, and nothing else."""
    source, made = folder / "nvml.c", folder / f"nvml-{count}-{status}.so"
    source.write_text(NVML)
    defined = [f"-DCOUNT={count}", f"-DSTATUS={status}"]
    subprocess.run(["g++", "-x", "c", "-shared", "-fPIC", *defined, str(source), "-o", str(made)], check=True)
    return str(made)


@pytest.mark.parametrize("written", ["h100-80gb", "H100 80GB", "h100_80GB", "NVIDIA H100-80GB", "h100", "H100"])
def test_a_gpu_is_found_however_it_is_written(written: str) -> None:
    assert find_gpu(written) == Gpu("h100-80gb", 81559 * MIB, 90)


@pytest.mark.parametrize("written", ["rtx-4090", "RTX 4090", "GeForce RTX 4090", "rtx4090", "4090"])
def test_consumer_gpus_are_found_likewise(written: str) -> None:
    assert find_gpu(written).name == "rtx-4090"


def test_an_unknown_gpu_has_a_nearest_and_all_are_named() -> None:
    with pytest.raises(BuildError, match=r"^gpu: 'h1000' is not known; did you mean h100\? Known: a10, a30, .*--sm$"):
        find_gpu("h1000")


def test_all_that_were_asked_for_are_there() -> None:
    asked = "a10 a30 a100-40gb a100-80gb l4 l40s h100 h200 b200 gb200 rtx3090 rtx4090 rtx5090 rtx2080ti orin"
    assert {find_gpu(name).name for name in asked.split()} == set(GPUS) - {"orin-32gb"}


@pytest.mark.parametrize(
    ("text", "size"), [("80GiB", 80 * GIB), ("80 GB", 80 * 10**9), ("1.5g", 3 * GIB // 2), ("81559MiB", 81559 * MIB)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "80 parsecs", "0GiB", "1e3GiB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(BuildError, match=r"^memory: .* is not a size such as 80GiB"):
        parse_memory(text)


def test_nvml_tells_the_machines_gpus(tmp_path: Path) -> None:
    assert detect_gpus(library(tmp_path)) == [Gpu("NVIDIA First", 7 * MIB, 89), Gpu("NVIDIA Second", 8 * MIB, 89)]


@pytest.mark.parametrize(
    ("count", "status", "message"),
    [(0, 0, "found NVIDIA's driver, but no GPU"), (1, 3, "nvmlDeviceGetMemoryInfo failed with status 3")],
)
def test_what_nvml_lacks_is_said(count: int, status: int, message: str, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=message):
        detect_gpus(library(tmp_path, count, status))


def test_a_machine_without_a_driver_is_told_so() -> None:
    with pytest.raises(BuildError, match=r"^gpu: auto needs NVIDIA's driver \(libnone\.so\)"):
        detect_gpus("libnone.so")
