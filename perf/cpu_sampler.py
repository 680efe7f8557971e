"""Notes now and then how much CPU each process has used, so that it can be told for any span of time afterwards.

Runs on the load host, as a thread of the benchmark; reading a handful of processes five times a second costs next to
nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import psutil

from perf.records import CpuSample

INTERVAL_S = 0.2
IDLE_CORES = 0.1
IDLE_SPAN_S = 0.2
IDLE_TIMEOUT_S = 10.0


class CpuSampler:
    """Samples the processes given by name until it is closed. `samples` are in the order of time, the system clock's as
    perf_analyzer's records are."""

    def __init__(self, processes: Mapping[str, psutil.Process]) -> None:
        self._processes = dict(processes)
        self._lock = threading.Lock()  # one process is not sampled by two threads at once
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cpu-sampler", daemon=True)
        self.samples: dict[str, list[CpuSample]] = {}

    def __enter__(self) -> CpuSampler:
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        self._sample()

    @contextmanager
    def watching(self, name: str, pid: int) -> Iterator[None]:
        """Sample one more process for a while; one that ends meanwhile must not be reaped before that is over."""
        process = psutil.Process(pid)
        self._sample_one(name, process)
        self._processes = {**self._processes, name: process}
        try:
            yield
        finally:
            self._processes = {other: process for other, process in self._processes.items() if other != name}
            self._sample_one(name, process)

    def _run(self) -> None:
        while not self._ended.wait(INTERVAL_S):
            self._sample()

    def _sample(self) -> None:
        for name, process in self._processes.items():
            self._sample_one(name, process)

    def _sample_one(self, name: str, process: psutil.Process) -> None:
        with self._lock:
            samples = self.samples.setdefault(name, [])
            try:
                used_s = cpu_s(process)
            except psutil.Error:  # it has ended, and uses no more than it had
                used_s = samples[-1].cpu_s if samples else 0.0
            samples.append(CpuSample(time.time_ns(), used_s))


def wait_until_idle(processes: Iterable[psutil.Process]) -> None:
    """Return when they use next to no CPU, after IDLE_TIMEOUT_S at the latest: what is left is measured with the turn.

    vLLM's worker goes on looking for work for a second after the last of it.
    """
    watched = [process for process in processes if process.is_running()]
    deadline_s = time.monotonic() + IDLE_TIMEOUT_S
    while watched and time.monotonic() < deadline_s:
        before_s = sum(map(cpu_s, watched))
        time.sleep(IDLE_SPAN_S)
        if sum(map(cpu_s, watched)) - before_s <= IDLE_CORES * IDLE_SPAN_S:
            return


def cpu_s(process: psutil.Process) -> float:
    """CPU seconds, user and system, that a process has used. Raises psutil.Error if it is gone."""
    times = process.cpu_times()
    return float(times.user + times.system)
