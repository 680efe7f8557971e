"""What a client saw of one request: the raw sample that every figure is computed from. Runs on the load host."""

from __future__ import annotations

from typing import NamedTuple


class RequestRecord(NamedTuple):
    """One request. Times are nanoseconds of the client's clock; `tokens` are the new ones in each response."""

    started_ns: int
    received_ns: tuple[int, ...]
    tokens: tuple[int, ...]


class Window(NamedTuple):
    """A span of time: after `start_ns`, up to and including `end_ns`."""

    start_ns: int
    end_ns: int

    def holds(self, time_ns: int) -> bool:
        """Whether the time lies within."""
        return self.start_ns < time_ns <= self.end_ns


class Emission(NamedTuple):
    """When the engine had made the first `ids_made` ids of a request."""

    ids_made: int
    time_ns: int


class CpuSample(NamedTuple):
    """CPU seconds (user and system) that a process had used at a time."""

    time_ns: int
    cpu_s: float
