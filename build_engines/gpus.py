"""The GPUs that engines are planned for: memory and compute capability, by name or as NVML tells."""

from __future__ import annotations

import ctypes
import difflib
import re
from dataclasses import dataclass

from build_engines.errors import BuildError

MIB, GIB = 2**20, 2**30

FP8_SM, FP4_SM, BF16_SM, OLDEST_SM = 89, 100, 80, 75
"""The compute capabilities from which on the tensor cores take these types, and the oldest that is planned for."""

_UNITS = {"": 1, "b": 1, "mb": 10**6, "gb": 10**9, "mib": MIB, "gib": GIB, "m": MIB, "g": GIB}


@dataclass(frozen=True)
class Gpu:
    """`memory` is what CUDA sees, in bytes, less than the name says; `sm` is the compute capability times ten."""

    name: str
    memory: int
    sm: int


def _known(name: str, mib: int, sm: int) -> Gpu:
    return Gpu(name, mib * MIB, sm)


GPUS = {
    gpu.name: gpu
    for gpu in (
        _known("a10", 23028, 86),
        _known("a30", 24576, 80),
        _known("a100-40gb", 40960, 80),
        _known("a100-80gb", 81920, 80),
        _known("l4", 23034, 89),
        _known("l40s", 46068, 89),
        _known("h100-80gb", 81559, 90),
        _known("h200", 143771, 90),
        _known("b200", 183359, 100),
        _known("gb200", 189471, 100),
        _known("rtx-3090", 24576, 86),
        _known("rtx-4090", 24564, 89),
        _known("rtx-5090", 32607, 120),
        _known("rtx-2080ti", 11264, 75),
        _known("orin-32gb", 30697, 87),
        _known("orin-64gb", 62841, 87),
    )
}
"""Total memory as nvidia-smi shows it (MiB). Orin's is the CPU's, too."""

_ALIASES = {
    "a100": "a100-80gb",
    "h100": "h100-80gb",
    "orin": "orin-64gb",
    **{name.removeprefix("rtx-"): name for name in GPUS if name.startswith("rtx-")},
}


def find_gpu(name: str) -> Gpu:
    """The GPU of this name, however it is written. Raises BuildError with the nearest name."""
    key = re.sub(r"[\s_]+", "-", name.strip().lower()).removeprefix("nvidia-")
    key = key.removeprefix("geforce-").removeprefix("rtx-")
    plain = {known.replace("-", ""): known for known in (*GPUS, *_ALIASES)}
    found = plain.get(key.replace("-", ""))
    if found is None:
        nearest = difflib.get_close_matches(key, [*GPUS, *_ALIASES], 1)
        hint = f"; did you mean {nearest[0]}?" if nearest else ""
        raise BuildError(f"gpu: {name!r} is not known{hint} Known: {', '.join(GPUS)}; any other as --memory and --sm")
    return GPUS[_ALIASES.get(found, found)]


def parse_memory(text: str) -> int:
    """Bytes of "80GiB", "80 GB" or "81559MiB". Raises BuildError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in _UNITS or not float(match[1]):
        raise BuildError(f"memory: {text!r} is not a size such as 80GiB, 80GB or 81559MiB")
    return int(float(match[1]) * _UNITS[match[2]])


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def detect_gpus(library: str = "libnvidia-ml.so.1") -> list[Gpu]:
    """This machine's GPUs in NVML's order. Raises BuildError where there is no driver or no GPU."""
    try:
        nvml = ctypes.CDLL(library)
    except OSError:
        raise BuildError(
            f"gpu: auto needs NVIDIA's driver ({library}), which is not here; name a GPU instead"
        ) from None
    _check(nvml, nvml.nvmlInit_v2(), "nvmlInit_v2")
    try:
        count = ctypes.c_uint()
        _check(nvml, nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)), "nvmlDeviceGetCount_v2")
        if not count.value:
            raise BuildError("gpu: auto found NVIDIA's driver, but no GPU; name one instead")
        return [_read_gpu(nvml, place) for place in range(count.value)]
    finally:
        nvml.nvmlShutdown()


def _read_gpu(nvml: ctypes.CDLL, place: int) -> Gpu:
    handle, name, memory = ctypes.c_void_p(), ctypes.create_string_buffer(96), _Memory()
    major, minor = ctypes.c_int(), ctypes.c_int()
    by = ctypes.byref
    _check(nvml, nvml.nvmlDeviceGetHandleByIndex_v2(place, by(handle)), "nvmlDeviceGetHandleByIndex_v2")
    _check(nvml, nvml.nvmlDeviceGetName(handle, name, len(name)), "nvmlDeviceGetName")
    _check(nvml, nvml.nvmlDeviceGetMemoryInfo(handle, by(memory)), "nvmlDeviceGetMemoryInfo")
    capability = nvml.nvmlDeviceGetCudaComputeCapability(handle, by(major), by(minor))
    _check(nvml, capability, "nvmlDeviceGetCudaComputeCapability")
    return Gpu(name.value.decode(), memory.total, 10 * major.value + minor.value)


def _check(nvml: ctypes.CDLL, status: int, call: str) -> None:
    if status:
        raise BuildError(f"gpu: NVML's {call} failed with status {status}")
