"""Queue times from what servers expose, and CPU and memory of processes."""

from __future__ import annotations

import io
import os
from contextlib import closing
from typing import Any

import pytest

from perf.load import server_watch
from perf.load.server_watch import QueueTime, ServerWatch, processes_of, queue_mean_ms, read_queue_time
from tritone.errors import TritoneError

TRITON = """\
# HELP nv_inference_request_success Number of successful inference requests
# TYPE nv_inference_request_success counter
nv_inference_request_success{model="m",version="1"} 4
nv_inference_request_success{model="m_postprocess",version="1"} 70
nv_inference_request_success{model="other",version="1"} 900
# TYPE nv_inference_queue_duration_us counter
nv_inference_queue_duration_us{model="m",version="1"} 1000
nv_inference_queue_duration_us{model="m_postprocess",version="1"} 30000
nv_inference_queue_duration_us{model="m_engine",version="1"} 9000
nv_inference_queue_duration_us{model="other",version="1"} 7000000
"""
VLLM = """\
# TYPE vllm:request_queue_time_seconds histogram
vllm:request_queue_time_seconds_bucket{engine="0",le="0.3",model_name="m"} 2
vllm:request_queue_time_seconds_bucket{engine="0",le="+Inf",model_name="m"} 3
vllm:request_queue_time_seconds_count{engine="0",model_name="m"} 3
vllm:request_queue_time_seconds_sum{engine="0",model_name="m"} 1.5
"""


def answer_with(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    def urlopen(url: str, timeout: float) -> Any:
        return closing(io.BytesIO(text.encode()))

    monkeypatch.setattr(server_watch, "urlopen", urlopen)


@pytest.mark.parametrize(
    ("text", "found"),
    [(TRITON, QueueTime(0.04, 4)), (VLLM, QueueTime(1.5, 3)), (VLLM + TRITON, QueueTime(1.5, 3)), ("", None)],
)
def test_queue_time(monkeypatch: pytest.MonkeyPatch, text: str, found: QueueTime | None) -> None:
    answer_with(monkeypatch, text)
    assert read_queue_time("http://h/metrics", "m") == found


def test_mean_of_what_waited_meanwhile() -> None:
    assert queue_mean_ms(QueueTime(1.0, 10), QueueTime(1.5, 30)) == 25.0
    assert queue_mean_ms(QueueTime(1.0, 10), QueueTime(1.0, 10)) is None
    assert queue_mean_ms(None, QueueTime(1.0, 10)) is None


def test_no_metrics_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(url: str, timeout: float) -> Any:
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr(server_watch, "urlopen", refuse)
    with pytest.raises(TritoneError, match="no metrics could be read from http://h/metrics: refused"):
        read_queue_time("http://h/metrics", "m")


def test_processes_are_watched() -> None:
    with ServerWatch([os.getpid()], None, "m") as watch:
        sum(range(10_000_000))
    assert watch.figures["server_cpu_s"] > 0.02
    assert watch.figures["server_peak_rss_mib"] > 20
    assert list(watch.figures["processes"]) == [f"process {os.getpid()}"]
    assert watch.figures["queue_mean_ms"] is None


def test_process_that_is_not_there() -> None:
    with pytest.raises(TritoneError, match="there is no process 4194304 to watch"):
        processes_of([4194304])
