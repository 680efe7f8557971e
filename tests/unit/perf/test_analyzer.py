"""perf_analyzer's command line."""

from __future__ import annotations

from pathlib import Path

from perf.analyzer import Load, arguments


def test_arguments_are_those_of_a_closed_loop() -> None:
    load = Load(8, 40, [{"text_input": ["x"], "max_tokens": [4]}, {"text_input": ["x"], "max_tokens": [5]}], 60.0)
    assert arguments("localhost:8001", "toy", load, Path("in.json"), Path("out.json")) == [
        *("-m", "toy", "-u", "localhost:8001", "-i", "grpc", "--streaming", "--async"),
        *("--input-data", "in.json", "--shape=text_input:1", "--shape=max_tokens:1"),
        *("--concurrency-range", "8", "--request-count", "40", "--profile-export-file", "out.json"),
    ]
