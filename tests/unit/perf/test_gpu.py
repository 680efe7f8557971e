"""GPU figures from a stand-in for NVML with its names only."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from perf import gpu
from perf.gpu import GpuWatch

MIB = 1 << 20


class Nvml:
    """Two GPUs, the second busier."""

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> SimpleNamespace:
        return SimpleNamespace(gpu=(20, 60)[handle], memory=0)

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:
        return SimpleNamespace(total=9 * MIB, free=0, used=(1000 * MIB, 500 * MIB)[handle])


def test_mean_over_gpus_and_most_memory_of_all() -> None:
    with GpuWatch(Nvml()) as watch:
        pass
    assert watch.figures == {"gpu_percent": 40.0, "gpu_peak_memory_mib": 1500.0}


def test_without_nvml_there_is_nothing_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "load_nvml", lambda: None)
    with GpuWatch() as watch:
        pass
    assert watch.figures == {"gpu_percent": None, "gpu_peak_memory_mib": None}
