"""The sampler covers the whole time it is entered."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import NamedTuple

import psutil
import pytest

from perf import cpu_sampler
from perf.cpu_sampler import CpuSampler, wait_until_idle
from perf.metrics import cpu_s_within
from perf.records import Window


def test_any_window_within_is_covered() -> None:
    with CpuSampler({"this": psutil.Process(os.getpid())}) as sampler:
        start_ns = time.time_ns()
        while time.time_ns() - start_ns < 50_000_000:
            pass
        end_ns = time.time_ns()
    assert len(sampler.samples["this"]) >= 2
    assert cpu_s_within(sampler.samples["this"], Window(start_ns, end_ns)) > 0


def test_one_more_process_is_watched_for_a_while() -> None:
    with CpuSampler({}) as sampler:
        with sampler.watching("client", os.getpid()):
            pass
        seen = len(sampler.samples["client"])
        time.sleep(0.3)
    assert seen >= 2
    assert len(sampler.samples["client"]) == seen


def test_process_that_has_ended_unreaped_is_sampled_to_its_end() -> None:
    process = subprocess.Popen([sys.executable, "-c", "sum(range(10_000_000))"])
    with CpuSampler({}) as sampler, sampler.watching("client", process.pid):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    process.wait()
    first, *_, last = sampler.samples["client"]
    assert last.cpu_s - first.cpu_s > 0.05


def test_process_that_is_gone_uses_no_more_than_it_had() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    with CpuSampler({"child": psutil.Process(process.pid)}) as sampler:
        process.kill()
        process.wait()
        ended_ns = time.time_ns()
    first, *_, last = sampler.samples["child"]
    assert last.time_ns >= ended_ns
    assert cpu_s_within(sampler.samples["child"], Window(first.time_ns, ended_ns)) <= last.cpu_s - first.cpu_s


class CpuTimes(NamedTuple):
    user: float
    system: float


class FakeProcess:
    """A process by the CPU seconds that it has used each time it is asked."""

    def __init__(self, *used_s: float) -> None:
        self.left = list(used_s)

    def is_running(self) -> bool:
        return True

    def cpu_times(self) -> CpuTimes:
        return CpuTimes(self.left.pop(0), 1.0)


def test_waits_until_all_are_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_sampler, "IDLE_SPAN_S", 0.01)
    spinning, idle = FakeProcess(0.0, 0.01, 0.01, 0.02, 0.02, 0.02, 9.0), FakeProcess(*[5.0] * 7)
    wait_until_idle([spinning, idle])  # type: ignore[list-item]
    assert spinning.left == [9.0]
    wait_until_idle([])


def test_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_sampler, "IDLE_SPAN_S", 0.01)
    monkeypatch.setattr(cpu_sampler, "IDLE_TIMEOUT_S", 0.05)
    busy = FakeProcess(*range(100))
    wait_until_idle([busy])  # type: ignore[list-item]
    assert len(busy.left) >= 88
