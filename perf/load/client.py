"""How the load generator sends a request, and the way it does over HTTP. Runs on the load host."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import aiohttp

from perf.load.events import CountTokens, Event
from perf.load.fronts import GRPC, HTTP_FRONTS, HttpFront, Target
from perf.load.notes import Notes, read_events
from perf.load.record import LoadRecord
from perf.load.request import LoadRequest

MAX_LINE = 1 << 20


class Client(Protocol):
    """A connection to what is measured."""

    async def send(self, request: LoadRequest, due_ns: int | None) -> LoadRecord:
        """Ask, read the answer to its end, and tell what happened; what goes wrong is in the record."""


@asynccontextmanager
async def connected(front: str, target: Target, count_tokens: CountTokens | None) -> AsyncIterator[Client]:
    """A client of the front, one of `FRONTS`."""
    if front == GRPC:
        from perf.load.grpc_client import grpc_client

        async with grpc_client(target, count_tokens) as client:
            yield client
        return
    _allow_many_connections()
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=target.timeout_s)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, read_bufsize=MAX_LINE) as session:
        yield HttpClient(session, HTTP_FRONTS[front], target, count_tokens)


class HttpClient:
    """Server-sent events over HTTP/1.1, a connection for each stream, kept for its next request."""

    def __init__(
        self, session: aiohttp.ClientSession, front: HttpFront, target: Target, count_tokens: CountTokens | None
    ) -> None:
        self._session = session
        self._front = front
        self._target = target
        self._count_tokens = count_tokens
        self._url = target.url.rstrip("/") + front.path.format(model=target.model)

    async def send(self, request: LoadRequest, due_ns: int | None) -> LoadRecord:
        """See Client."""
        body = json.dumps(self._front.body(self._target, request)).encode()
        headers = {"Content-Type": "application/json", **self._target.headers}
        notes = Notes(due_ns)
        try:
            async with self._session.post(self._url, data=body, headers=headers) as response:
                if response.status != 200:
                    text = (await response.text(errors="replace"))[:300]
                    return notes.failed("refused", f"HTTP {response.status}: {text}")
                rest = b""
                while block := await response.content.readany():
                    *lines, rest = (rest + block).split(b"\n")
                    notes.add([line[5:].strip() for line in lines if line.startswith(b"data:")])
        except asyncio.TimeoutError:
            return notes.failed("timeout", f"no end within {self._target.timeout_s:g} s", self._events(notes))
        except aiohttp.ClientError as error:
            return notes.failed("broken off", f"{type(error).__name__}: {error}", self._events(notes))
        return notes.record(self._events(notes), self._count_tokens)

    def _events(self, notes: Notes) -> list[Event]:
        return read_events(self._front, notes.data)


def _allow_many_connections() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
