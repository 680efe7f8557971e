"""Sends requests all at once over HTTP and notes when each event of their streams arrived.

Runs on the load host, in the benchmark's process. Events are read once all is over, so that both sides of a comparison
cost the client the same, whatever their events hold.
"""

from __future__ import annotations

import asyncio
import json
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import aiohttp

from perf.records import RequestRecord
from tritone.errors import TritoneError

TIMEOUT_S = 600.0
DONE = b"data: [DONE]"

TotalTokens = Callable[[Mapping[str, Any]], int]
"""How many tokens an answer had, from its last event."""


class StreamError(TritoneError):
    """An answer was refused, was broken off, or had no end."""


def burst(url: str, bodies: Sequence[Mapping[str, Any]], total_tokens: TotalTokens) -> list[RequestRecord]:
    """POST all bodies at once; times are time.time_ns(). Raises StreamError.

    Only the last event of an answer is asked for its tokens, so all of them count as received with that.
    """
    _allow_many_connections()
    return asyncio.run(_burst(url, bodies, total_tokens))


async def _burst(url: str, bodies: Sequence[Mapping[str, Any]], total_tokens: TotalTokens) -> list[RequestRecord]:
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, read_bufsize=2**18) as session:
        return await asyncio.gather(*(_stream(session, url, body, total_tokens) for body in bodies))


async def _stream(
    session: aiohttp.ClientSession, url: str, body: Mapping[str, Any], total_tokens: TotalTokens
) -> RequestRecord:
    started_ns = time.time_ns()
    received_ns: list[int] = []
    last = rest = b""
    try:
        async with session.post(url, json=body) as response:
            if response.status != 200:
                raise StreamError(f"{url}: status {response.status}: {(await response.text())[:200]}")
            while block := await response.content.readany():
                *events, rest = (rest + block).split(b"\n\n")
                events = [event for event in events if event.startswith(b"data: ") and event != DONE]
                received_ns += [time.time_ns()] * len(events)
                last = events[-1] if events else last
    except (aiohttp.ClientError, asyncio.TimeoutError) as error:
        raise StreamError(f"{url}: {type(error).__name__}") from error
    tokens = _total(last, total_tokens)
    return RequestRecord(started_ns, tuple(received_ns), (*[0] * (len(received_ns) - 1), tokens))


def _total(last: bytes, total_tokens: TotalTokens) -> int:
    try:
        return total_tokens(json.loads(last.removeprefix(b"data: ")))
    except (ValueError, KeyError, TypeError):
        raise StreamError(f"an answer ended with {last[:200]!r}") from None


def _allow_many_connections() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
