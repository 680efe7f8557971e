"""What a load costs on the server's side: CPU and memory of its processes, its queue. Runs on the load host.

Processes can be watched on the same machine only; metrics come from any Prometheus address.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.request import urlopen

import psutil
from prometheus_client.parser import text_string_to_metric_families

from perf.cpu_sampler import CpuSampler
from perf.processes import MIB, with_children
from tritone.errors import TritoneError

RSS_INTERVAL_S = 0.5

QUEUES = {
    "nv_inference_queue_duration_us": ("nv_inference_request_success", 1e-3),
    "vllm:request_queue_time_seconds_sum": ("vllm:request_queue_time_seconds_count", 1e3),
}
"""Metrics whose growth, divided by that of another, is a mean time in a queue; the factor makes milliseconds of it."""


class ServerWatch:
    """Watches while it is entered."""

    def __init__(self, pids: Sequence[int], metrics_url: str | None) -> None:
        self._pids = pids
        self._metrics_url = metrics_url
        self.cpu_samples: Mapping[str, Any] = {}
        self.figures: dict[str, Any] = {}

    def __enter__(self) -> ServerWatch:
        self._processes = processes_of(self._pids)
        self._before = read_metrics(self._metrics_url) if self._metrics_url else {}
        self._sampler = CpuSampler(self._processes).__enter__()
        self._peak_mib: dict[str, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch_memory, name="memory-sampler", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        self._sampler.__exit__(*error)
        self.cpu_samples = self._sampler.samples
        used = {name: found[-1].cpu_s - found[0].cpu_s for name, found in self.cpu_samples.items() if found}
        self.figures = {
            "server_cpu_s": sum(used.values()) if used else None,
            "server_peak_rss_mib": sum(self._peak_mib.values()) if self._peak_mib else None,
            "processes": {
                name: {"cpu_s": used.get(name), "peak_rss_mib": self._peak_mib.get(name)} for name in self._processes
            },
            "queue_mean_ms": None,
        }
        if self._metrics_url and error[0] is None:
            self.figures["queue_mean_ms"] = queue_mean_ms(self._before, read_metrics(self._metrics_url))

    def _watch_memory(self) -> None:
        while True:
            for name, process in self._processes.items():
                with suppress(psutil.Error):
                    self._peak_mib[name] = max(self._peak_mib.get(name, 0), process.memory_info().rss / MIB)
            if self._ended.wait(RSS_INTERVAL_S):
                return


def processes_of(pids: Sequence[int]) -> dict[str, psutil.Process]:
    """The processes and all that they have started, by names of their own. Raises TritoneError."""
    found: dict[str, psutil.Process] = {}
    for pid in pids:
        try:
            found |= with_children(f"process {pid}", psutil.Process(pid))
        except psutil.Error as error:
            raise TritoneError(f"there is no process {pid} to watch") from error
    return found


def read_metrics(url: str) -> dict[str, float]:
    """The sum over all labels of every sample. Raises TritoneError."""
    try:
        with urlopen(url, timeout=10) as response:
            text = response.read().decode()
        sums: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    except (OSError, ValueError) as error:
        raise TritoneError(f"no metrics could be read from {url}: {error}") from error
    return sums


def queue_mean_ms(before: Mapping[str, float], after: Mapping[str, float]) -> float | None:
    """Mean time in the server's queue meanwhile = growth of the time waited / growth of the requests.

    Of vLLM's figure where there is one, otherwise Triton's, which has the queues of all models of an ensemble. None
    where neither is told, or no request came.
    """
    for total, (number, factor) in reversed(QUEUES.items()):
        requests = after.get(number, 0) - before.get(number, 0)
        if total in after and requests > 0:
            return (after[total] - before.get(total, 0)) / requests * factor
    return None
