"""Answers a generation over ASGI: whole or as a stream, while watching whether the client is still there.

Runs in the gateway. An error before the first byte is an answer with its status; after it, the stream's last event.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing, suppress
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tritone.gateway import sse
from tritone.gateway.access_log import failure
from tritone.gateway.answers import ChatAnswer, CompletionAnswer
from tritone.gateway.asgi_reply import send_error
from tritone.gateway.chat_request import ChatRequest
from tritone.gateway.choices import Choices, Indexed
from tritone.gateway.chunks import ChatStream, CompletionStream, new_id
from tritone.gateway.completion_request import CompletionRequest
from tritone.gateway.ensemble_client import EnsembleError
from tritone.gateway.openai_error import OpenAIError, internal_error, shutting_down
from tritone.gateway.request_record import RequestRecord
from tritone.gateway.settings import GatewayConfig
from tritone.gateway.to_ensemble import from_ensemble

logger = logging.getLogger(__name__)

STREAM_HEADERS = [
    (b"content-type", sse.CONTENT_TYPE.encode()),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # proxies that buffer would hold the tokens back
]


class ClientLeftError(Exception):
    """Nobody is there to answer any more."""


class AnswerResponse(Response):
    """The answer to a checked request, made when it is sent."""

    def __init__(
        self, request: ChatRequest | CompletionRequest, choices: Choices, record: RequestRecord, config: GatewayConfig
    ) -> None:
        super().__init__()
        self._request = request
        self._choices = choices
        self._record = record
        self._config = config
        self._has_started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Generate and send until all is said, the client has left, or the time is up."""
        self._sent_at_s = time.monotonic()
        work = self._stream(send) if self._request.stream else self._whole(send)
        try:
            await while_connected(work, receive, self._config.request_timeout_s)
        except ClientLeftError:
            self._record.is_disconnected = True
        except asyncio.CancelledError:  # the server's time is up
            await self._fail(send, shutting_down())
            raise
        except Exception as error:
            await self._fail(send, self._public(error))

    async def _whole(self, send: Send) -> None:
        kind = ChatAnswer if isinstance(self._request, ChatRequest) else CompletionAnswer
        answer = kind(self._request, self._new_id(), int(time.time()))  # type: ignore[arg-type]
        async with aclosing(self._choices.events()) as arrived:
            async for index, events in arrived:
                answer.add(index, events)
        body = json.dumps(answer.body()).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        self._has_started = True
        await send({"type": "http.response.body", "body": body})

    async def _stream(self, send: Send) -> None:
        async with aclosing(self._choices.events()) as arrived:
            first = await anext(arrived)  # a refusal comes here, before any byte
            await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
            self._has_started = True
            keep_alive = asyncio.create_task(self._keep_alive(send))
            try:
                await self._send_chunks(send, first, arrived)
            finally:
                keep_alive.cancel()
        await send({"type": "http.response.body", "body": b""})

    async def _send_chunks(self, send: Send, first: Indexed, rest: AsyncGenerator[Indexed, None]) -> None:
        kind = ChatStream if isinstance(self._request, ChatRequest) else CompletionStream
        stream = kind(self._request, self._new_id(), int(time.time()))  # type: ignore[arg-type]
        for index in range(self._request.num_choices):
            await self._send_body(send, stream.start(index))
        await self._send_body(send, stream.events(*first))
        async for index, events in rest:
            await self._send_body(send, stream.events(index, events))
        await self._send_body(send, stream.finish())

    async def _send_body(self, send: Send, chunks: list[bytes]) -> None:
        if chunks:
            self._sent_at_s = time.monotonic()
            await send({"type": "http.response.body", "body": b"".join(chunks), "more_body": True})

    async def _keep_alive(self, send: Send) -> None:
        """A comment now and then while there is nothing to say, so that no proxy takes the connection for dead."""
        while True:
            await asyncio.sleep(self._sent_at_s + self._config.keep_alive_s - time.monotonic())
            if time.monotonic() - self._sent_at_s >= self._config.keep_alive_s:
                await self._send_body(send, [sse.KEEP_ALIVE])

    async def _fail(self, send: Send, error: OpenAIError) -> None:
        if not self._has_started:
            headers = {"retry-after": "1"} if error.status in (429, 503) else None
            await send_error(send, error, headers)
            return
        self._record.error = error.code or error.type
        await send({"type": "http.response.body", "body": sse.event(error.body()), "more_body": False})

    def _public(self, error: Exception) -> OpenAIError:
        if isinstance(error, OpenAIError):
            return error
        if isinstance(error, EnsembleError):
            if error.status >= 500:
                logger.warning("request %s: %s", self._record.id, error.message)
            return from_ensemble(self._request, error, self._record.id, self._config.overload_status)
        logger.error("request %s failed: %s", self._record.id, failure(error))
        return internal_error(self._record.id)

    def _new_id(self) -> str:
        return new_id("chatcmpl" if isinstance(self._request, ChatRequest) else "cmpl")


async def while_connected(work: Coroutine[Any, Any, None], receive: Receive, timeout_s: float) -> None:
    """Run `work` to its end. Raises ClientLeftError, or OpenAIError (504) when it takes too long; it is ended then."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_until_left(receive))
    try:
        done, _ = await asyncio.wait({working, leaving}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if working in done:
            await working
        elif leaving in done:
            raise ClientLeftError
        else:
            raise OpenAIError(504, f"The answer took longer than {timeout_s:g} s.")
    finally:
        for task in (working, leaving):
            if task.cancel():  # awaiting one that is done would raise its error anew, without where it comes from
                with suppress(BaseException):
                    await task


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
