"""Strict fakes of the adapter and the way back, and a clock that only moves when told."""

from __future__ import annotations

import math

from engine.adapter import EngineDiedError, EngineRequest, Load, RefusedError, TokenDelta
from engine.stream import Chunk


class Clock:
    """Seconds, moved by hand."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class FakeAdapter:
    """Hands over the deltas it is given, in order, and remembers what it was asked."""

    streaming_cores = math.inf

    def __init__(self) -> None:
        self.deltas: list[TokenDelta] = []
        self.requests: dict[int, EngineRequest] = {}
        self.aborted: list[int] = []
        self.timeouts_s: list[float] = []
        self.refusal = ""
        self.death = ""

    def start(self) -> None:
        raise AssertionError("the stage starts the adapter, not the pump")

    def submit(self, request: EngineRequest) -> None:
        if self.refusal:
            raise RefusedError(self.refusal)
        assert request.key not in self.requests
        self.requests[request.key] = request

    def abort(self, key: int) -> None:
        self.aborted.append(key)

    def take(self, timeout_s: float) -> list[TokenDelta]:
        self.timeouts_s.append(timeout_s)
        if self.death:
            raise EngineDiedError(self.death)
        deltas, self.deltas = self.deltas, []
        return deltas

    def load(self) -> Load:
        return Load(len(self.requests), 0, 0.0)

    def stop(self) -> None:
        raise AssertionError("the stage stops the adapter, not the pump")


class FakeResponder:
    """Keeps every chunk; refuses anything after the last one, as Triton does."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.error = ""
        self.is_refused = False
        self.is_done = False
        self.is_broken = False

    def send(self, chunk: Chunk, is_last: bool) -> None:
        assert not self.is_done, "a chunk after the last one"
        if self.is_broken:
            raise RuntimeError("the response sender is closed")
        self.is_done = is_last
        self.chunks.append(chunk)

    def fail(self, message: str, is_refusal: bool = False) -> None:
        assert not self.is_done, "an error after the last chunk"
        self.is_done = True
        self.error = message
        self.is_refused = is_refusal
