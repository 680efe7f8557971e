"""Reads the scripted engine's trace of when it made each token. Runs on the load host."""

from __future__ import annotations

from pathlib import Path

from perf.records import Emission


def read_trace(path: Path) -> list[list[Emission]]:
    """The emissions of each request, the requests in the order of their first tokens."""
    requests: dict[str, list[Emission]] = {}
    for line in path.read_text("ascii").splitlines():
        key, ids_made, time_ns = line.split()
        requests.setdefault(key, []).append(Emission(int(ids_made), int(time_ns)))
    return list(requests.values())
