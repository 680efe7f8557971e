"""Requests sent all at once, every one of which must be answered: for comparisons. Runs on the load host."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from perf.load.client import connected
from perf.load.fronts import Target
from perf.load.record import LoadRecord
from perf.load.request import LoadRequest
from perf.records import RequestRecord
from tritone.errors import TritoneError


class BurstError(TritoneError):
    """An answer was refused, was broken off, or had no end."""


def burst(front: str, target: Target, prompts: Sequence[Sequence[int]], tokens: int) -> list[RequestRecord]:
    """Send all prompts at once and return when each has its `tokens` tokens. Raises BurstError."""
    records = asyncio.run(_burst(front, target, [LoadRequest(list(prompt), tokens) for prompt in prompts]))
    for record in records:
        if record.error:
            raise BurstError(f"{target.url}: {record.error}: {record.detail}")
    return [RequestRecord(record.sent_ns, record.received_ns, record.tokens) for record in records]


async def _burst(front: str, target: Target, requests: Sequence[LoadRequest]) -> list[LoadRecord]:
    async with connected(front, target, None) as client:
        return await asyncio.gather(*(client.send(request, None) for request in requests))
