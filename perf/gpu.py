"""What the GPUs did under a load: busy share and memory, by NVML. Runs on the load host, if that is the server's.

Without NVIDIA's driver, or without the package nvidia-ml-py, there is nothing to tell.
"""

from __future__ import annotations

import threading
from typing import Any

from perf.processes import MIB

INTERVAL_S = 0.5


class GpuWatch:
    """Samples all GPUs while it is entered."""

    def __init__(self, nvml: Any | None = None) -> None:
        self._nvml = nvml or load_nvml()
        self._busy_percent: list[float] = []
        self._used_mib: list[float] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="gpu-sampler", daemon=True)

    def __enter__(self) -> GpuWatch:
        if self._nvml:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._nvml:
            self._thread.join()

    @property
    def figures(self) -> dict[str, float | None]:
        """gpu_percent: mean over time and GPUs of the share in which a kernel ran; gpu_peak_memory_mib: of all GPUs."""
        busy, used = self._busy_percent, self._used_mib
        return {
            "gpu_percent": sum(busy) / len(busy) if busy else None,
            "gpu_peak_memory_mib": max(used) if used else None,
        }

    def _watch(self) -> None:
        nvml: Any = self._nvml
        handles = [nvml.nvmlDeviceGetHandleByIndex(place) for place in range(nvml.nvmlDeviceGetCount())]
        while handles:
            self._busy_percent += [float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu) for handle in handles]
            self._used_mib.append(sum(nvml.nvmlDeviceGetMemoryInfo(handle).used for handle in handles) / MIB)
            if self._ended.wait(INTERVAL_S):
                return


def load_nvml() -> Any | None:
    """NVML, initialized; None where there is none."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no package, no driver, or one that does not answer: each has an exception of its own
        return None
    return pynvml
