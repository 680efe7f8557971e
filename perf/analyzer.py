"""Runs perf_analyzer against a decoupled ensemble over gRPC streaming. Runs on the load host."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perf.child_process import last_words
from perf.cpu_sampler import CpuSampler
from perf.export import TokenCount, read_export
from perf.records import RequestRecord
from tritone.errors import TritoneError
from tritone.perf_analyzer import find_perf_analyzer

POLL_S = 0.02

Inputs = Mapping[str, Any]
"""The inputs of one request: for each a list of elements."""


class AnalyzerError(TritoneError):
    """perf_analyzer failed. The message holds its last words."""


@dataclass(frozen=True)
class Load:
    """A closed loop: `streams` clients send `requests` in all, each its next one after the last response.

    The inputs are taken in turn, over and over.
    """

    streams: int
    requests: int
    inputs: Sequence[Inputs]
    timeout_s: float


def run_load(
    url: str,
    model: str,
    load: Load,
    count_tokens: TokenCount,
    sampler: CpuSampler,
    folder: Path,
) -> list[RequestRecord]:
    """Put the load on `model` at the gRPC address `url`; `folder` is for perf_analyzer's files.

    The sampler watches perf_analyzer as "client". Raises AnalyzerError or ExportError.
    """
    analyzer = find_perf_analyzer()
    data, export = folder / "inputs.json", folder / "export.json"
    data.write_text(json.dumps({"data": [dict(inputs) for inputs in load.inputs]}), "utf-8")
    export.unlink(missing_ok=True)  # perf_analyzer refuses to write over a file
    command = [str(analyzer.binary), *arguments(url, model, load, data, export)]
    with (folder / "perf_analyzer.log").open("w") as log:
        process = subprocess.Popen(command, env=dict(analyzer.environment), stdout=log, stderr=subprocess.STDOUT)
        try:
            with sampler.watching("client", process.pid):
                _wait_unreaped(process.pid, load.timeout_s)
        finally:
            process.kill()
            status = process.wait()
    if status != 0 or not export.is_file():
        raise AnalyzerError(f"perf_analyzer ended with status {status}: {last_words(folder / 'perf_analyzer.log')}")
    return read_export(export, count_tokens, load.requests)


def _wait_unreaped(pid: int, timeout_s: float) -> None:
    """Wait for the end of a child without reaping it, so that its CPU time can still be read."""
    deadline_s = time.monotonic() + timeout_s
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > deadline_s:
            raise AnalyzerError(f"perf_analyzer took longer than {timeout_s:g} s")
        time.sleep(POLL_S)


def arguments(url: str, model: str, load: Load, data: Path, export: Path) -> list[str]:
    """perf_analyzer's arguments for the load."""
    shapes = [f"--shape={name}:{len(value)}" for name, value in load.inputs[0].items()]
    return [
        *("-m", model, "-u", url, "-i", "grpc", "--streaming", "--async"),
        *("--input-data", str(data), *shapes),
        *("--concurrency-range", str(load.streams), "--request-count", str(load.requests)),
        *("--profile-export-file", str(export)),
    ]
