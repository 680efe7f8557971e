"""The choices of one request, made at once and told as they come. Runs in the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from tritone.gateway.ensemble_client import EnsembleClient, EnsembleError, Event
from tritone.gateway.metrics import GatewayMetrics
from tritone.gateway.request_record import RequestRecord

Indexed = tuple[int, list[Event]]


class Choices:
    """Answers of Triton's `model` to `inputs`, one for each choice; what is learnt goes into record and metrics."""

    def __init__(
        self,
        client: EnsembleClient,
        metrics: GatewayMetrics,
        record: RequestRecord,
        model: str,
        inputs: Sequence[Mapping[str, Any]],
        choices_per_prompt: int,
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._record = record
        self._model = model
        self._inputs = inputs
        self._choices_per_prompt = choices_per_prompt
        self._counted: set[int] = set()  # choices whose prompt is in the metrics

    async def events(self) -> AsyncGenerator[Indexed, None]:
        """Events with the index of their choice, those that arrived together in one list. Raises EnsembleError.

        Nothing comes before every prompt has an event, so that a refusal of any of them is the first thing that comes.
        Closed early, it ends all choices and frees the engine.
        """
        self._metrics.sent(self._record)
        async with aclosing(self._one(0) if len(self._inputs) == 1 else self._merged()) as events:
            try:
                async for index, arrived in events:
                    self._note(index, arrived)
                    yield index, arrived
            except EnsembleError as error:
                if error.is_overload:
                    self._metrics.rejected("engine_full")
                raise

    async def _one(self, index: int) -> AsyncGenerator[Indexed, None]:
        record = self._record
        request_id = f"{record.internal_id}-{index}" if index else record.internal_id
        answer = self._client.generate(self._model, self._inputs[index], request_id, record.trace_headers)
        async with aclosing(answer) as lists:
            async for events in lists:
                yield index, events

    async def _merged(self) -> AsyncGenerator[Indexed, None]:
        arrived: asyncio.Queue[Indexed | Exception | None] = asyncio.Queue(maxsize=len(self._inputs))
        tasks = [asyncio.create_task(self._copy(index, arrived)) for index in range(len(self._inputs))]
        unheard = {index // self._choices_per_prompt for index in range(len(tasks))}  # prompts that may yet be refused
        held: list[Indexed] = []
        try:
            running = len(tasks)
            while running:
                item = await arrived.get()
                if item is None:
                    running -= 1
                    continue
                if isinstance(item, Exception):
                    raise item
                unheard.discard(item[0] // self._choices_per_prompt)
                held.append(item)
                while held and not unheard:
                    yield held.pop(0)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _copy(self, index: int, arrived: asyncio.Queue[Indexed | Exception | None]) -> None:
        try:
            async with aclosing(self._one(index)) as events:
                async for item in events:
                    await arrived.put(item)
            await arrived.put(None)
        except Exception as error:
            await arrived.put(error)

    def _note(self, index: int, events: list[Event]) -> None:
        last = events[-1]
        for event in events:
            self._record.log_text(index, event.text)
        if index not in self._counted and index % self._choices_per_prompt == 0:
            self._counted.add(index)
            self._metrics.prompt(self._record, events[0].num_input_tokens or 0)
        self._metrics.tokens(self._record, index, last.num_output_tokens)
        if last.finish_reason:
            self._metrics.finished(self._record, last.finish_reason)
