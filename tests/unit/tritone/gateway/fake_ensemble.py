"""An ensemble that plays what a test has written down: only the real client's names, and no socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from tritone.gateway.ensemble_client import EnsembleError, Event, ModelInfo
from tritone.gateway.request_record import RequestRecord

Step = Sequence[Event] | Exception | float
"""Events that arrive together, an error to raise, or seconds to wait."""

ENDLESS = 3600.0


class FakeEnsemble:
    """Answer i is `scripts[i]`, in the order of asking; one that is not played to its end was cancelled."""

    def __init__(self, *scripts: Sequence[Step], models: Sequence[ModelInfo] = (ModelInfo("m", 64, "m"),)) -> None:
        self._scripts = list(scripts)
        self._models = list(models)
        self.asked: list[tuple[str, Mapping[str, Any], str, Mapping[str, str] | None]] = []
        self.running: set[str] = set()
        self.cancelled: list[str] = []
        self.num_model_calls = 0
        self.is_up = True

    def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def generate(
        self, model: str, inputs: Mapping[str, Any], request_id: str, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[list[Event], None]:
        script = self._scripts[len(self.asked)]
        self.asked.append((model, inputs, request_id, headers))
        self.running.add(request_id)
        is_done = False
        try:
            for step in script:
                await asyncio.sleep(0)  # what comes over a network comes in turns
                if isinstance(step, float):
                    await asyncio.sleep(step)
                elif isinstance(step, Exception):
                    is_done = isinstance(step, EnsembleError)
                    raise step
                else:
                    yield list(step)
            is_done = True
        finally:
            self.running.discard(request_id)
            if not is_done:
                self.cancelled.append(request_id)

    async def tokenize(self, model: str, inputs: Mapping[str, Any]) -> list[int]:
        self.asked.append((model, inputs, "", None))
        if inputs.get("text_input") == "bad":
            raise EnsembleError(400, "text_input: the prompt has no tokens")
        return [1, 2]

    async def detokenize(self, model: str, ids: list[int]) -> str:
        if ids == [999]:
            raise EnsembleError(400, "input_ids: has token id 999, allowed: 0 to 319")
        if ids == [500]:
            raise EnsembleError(500, "secret of the engine")
        return "text"

    async def models(self) -> list[ModelInfo]:
        self.num_model_calls += 1
        if not self.is_up:
            raise EnsembleError(503, "the model server cannot be reached")
        return self._models

    async def is_ready(self) -> bool:
        return self.is_up

    async def metrics(self, url: str) -> str:
        return f"# from {url}\n"


def record() -> RequestRecord:
    """The record of a request, as the access log makes it."""
    return RequestRecord("req-1", "unique", "POST", "/v1/completions", "192.0.2.1", 0.0, model="m")
