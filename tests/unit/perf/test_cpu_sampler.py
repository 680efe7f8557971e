"""The sampler covers the whole time it is entered."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil

from perf.cpu_sampler import CpuSampler
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
