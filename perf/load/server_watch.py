"""What a load costs on the server's side: CPU and memory of its processes, its queue. Runs on the load host.

Processes can be watched on the same machine only; metrics come from any Prometheus address.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.request import urlopen

import psutil
from prometheus_client.parser import text_string_to_metric_families

from perf.cpu_sampler import CpuSampler
from perf.processes import MIB, with_children
from tritone.errors import TritoneError

RSS_INTERVAL_S = 0.5

TRITON_QUEUE, TRITON_REQUESTS = "nv_inference_queue_duration_us_total", "nv_inference_request_success_total"
VLLM_QUEUE = "vllm:request_queue_time_seconds"


class QueueTime(NamedTuple):
    """How long so many requests have waited in a server's queues since it was started."""

    seconds: float
    requests: float


class ServerWatch:
    """Watches while it is entered."""

    def __init__(self, pids: Sequence[int], metrics_url: str | None, model: str) -> None:
        self._pids = pids
        self._metrics_url = metrics_url
        self._model = model
        self.cpu_samples: Mapping[str, Any] = {}
        self.figures: dict[str, Any] = {}

    def __enter__(self) -> ServerWatch:
        self._processes = processes_of(self._pids)
        self._queue_before = self._queue_time()
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
            "queue_mean_ms": queue_mean_ms(self._queue_before, self._queue_time()) if error[0] is None else None,
        }

    def _queue_time(self) -> QueueTime | None:
        return read_queue_time(self._metrics_url, self._model) if self._metrics_url else None

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


def read_queue_time(url: str, model: str) -> QueueTime | None:
    """From the metrics at `url`; None where they do not tell. Raises TritoneError.

    Of vLLM's, or of Triton's: there it is the time in the queues of all stages of the ensemble `model`, chunk by chunk.
    """
    try:
        with urlopen(url, timeout=10) as response:
            families = list(text_string_to_metric_families(response.read().decode()))
    except (OSError, ValueError) as error:
        raise TritoneError(f"no metrics could be read from {url}: {error}") from error
    samples = [sample for family in families for sample in family.samples]

    def total(name: str, of_stages: bool = False) -> float | None:
        values = [
            sample.value
            for sample in samples
            if sample.name == name
            and (
                sample.labels.get("model", model) == model
                or (of_stages and sample.labels.get("model", "").startswith(f"{model}_"))
            )
        ]
        return sum(values) if values else None

    waited_s, waiters = total(f"{VLLM_QUEUE}_sum"), total(f"{VLLM_QUEUE}_count")
    if waited_s is not None and waiters is not None:
        return QueueTime(waited_s, waiters)
    waited_us, requests = total(TRITON_QUEUE, of_stages=True), total(TRITON_REQUESTS)
    return QueueTime(waited_us * 1e-6, requests) if waited_us is not None and requests is not None else None


def queue_mean_ms(before: QueueTime | None, after: QueueTime | None) -> float | None:
    """Growth of the time waited / growth of the requests; None if no request came or neither is told."""
    if before is None or after is None or after.requests <= before.requests:
        return None
    return (after.seconds - before.seconds) / (after.requests - before.requests) * 1000
