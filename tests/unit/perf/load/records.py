"""Records of load tests, short to write."""

from __future__ import annotations

from typing import Any

from perf.load.record import COUNTED, LoadRecord


def record(due: int, received: tuple[int, ...], tokens: tuple[int, ...] | None = None, **more: Any) -> LoadRecord:
    """An answered request: sent when due, ended with its last event, a token each, unless told otherwise."""
    found = LoadRecord(
        due, due, received, tokens or (1,) * len(received), received[-1] if received else due, 10, COUNTED, "stop"
    )
    return found._replace(**more)
