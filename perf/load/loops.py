"""Closed and open loops, and what of the client itself could spoil their figures. Runs on the load host."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from perf.load.client import Client
from perf.load.record import LoadRecord, now_ns
from perf.load.request import LoadRequest
from perf.metrics import NS_PER_S

LAG_CHECK_S = 0.02

Tell = Callable[[int], None]
"""Is told how many requests have ended."""


class Limit(NamedTuple):
    """When no more requests are sent: after so many, or after so many seconds. Those that run are waited for."""

    requests: int | None
    seconds: float | None


class ClientLoad(NamedTuple):
    """Whether the client kept up: how late its event loop was each time it was to wake, and what of a core it used."""

    lags_s: list[float]
    cpu_cores: float


async def closed_loop(
    client: Client, requests: Iterator[LoadRequest], streams: int, limit: Limit, tell: Tell
) -> list[LoadRecord]:
    """`streams` clients, each of which sends its next request when the last one has ended."""
    records: list[LoadRecord] = []
    started_s = time.monotonic()
    sent = 0

    async def stream() -> None:
        nonlocal sent
        while not _is_over(limit, sent, time.monotonic() - started_s):
            sent += 1
            records.append(await client.send(next(requests), None))
            tell(len(records))

    await asyncio.gather(*(stream() for _ in range(streams)))
    return records


async def open_loop(
    client: Client, requests: Iterable[LoadRequest], times_s: Iterator[float], limit: Limit, tell: Tell
) -> list[LoadRecord]:
    """Each request is sent when it is due, whatever has become of those before it: a slow server is not spared.

    `times_s` are due times from the start, for requests that have none of their own.
    """
    start_ns = now_ns()
    records: list[LoadRecord] = []
    running: set[asyncio.Task[None]] = set()

    async def one(request: LoadRequest, due_ns: int) -> None:
        records.append(await client.send(request, due_ns))
        tell(len(records))

    for sent, request in enumerate(requests):
        due_s = next(times_s) if request.due_s is None else request.due_s
        if _is_over(limit, sent, due_s):
            break
        due_ns = start_ns + round(due_s * NS_PER_S)
        if (wait_s := (due_ns - now_ns()) / NS_PER_S) > 0:
            await asyncio.sleep(wait_s)
        task = asyncio.create_task(one(request, due_ns))
        running.add(task)
        task.add_done_callback(running.discard)
        await asyncio.sleep(0)  # also when late: let it be sent
    await asyncio.gather(*running)
    return records


def _is_over(limit: Limit, sent: int, elapsed_s: float) -> bool:
    return (limit.requests is not None and sent >= limit.requests) or (
        limit.seconds is not None and elapsed_s >= limit.seconds
    )


class LagMeter:
    """Measures while it is entered."""

    async def __aenter__(self) -> LagMeter:
        self._lags_s: list[float] = []
        self._started = (time.monotonic(), time.process_time())
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *error: object) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        wall_s, cpu_s = self._started
        self.found = ClientLoad(self._lags_s, (time.process_time() - cpu_s) / max(time.monotonic() - wall_s, 1e-9))

    async def _watch(self) -> None:
        while True:
            due_s = time.monotonic() + LAG_CHECK_S
            await asyncio.sleep(LAG_CHECK_S)
            self._lags_s.append(max(0.0, time.monotonic() - due_s))
