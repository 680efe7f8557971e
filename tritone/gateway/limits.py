"""Refuses what is too much: requests at once, and bytes or pauses in a body. Runs in each worker of the gateway."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tritone.gateway.asgi_reply import send_error
from tritone.gateway.health import GatewayState
from tritone.gateway.metrics import GatewayMetrics
from tritone.gateway.openai_error import OpenAIError, bad_field, shutting_down, too_many_requests
from tritone.gateway.request_record import record_of

RETRY_AFTER = {"retry-after": "1"}

_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS"})


class Admission:
    """ASGI middleware: work, which is whatever is posted, is refused while draining or when there is too much of it."""

    def __init__(
        self, app: ASGIApp, state: GatewayState, metrics: GatewayMetrics, most: int, overload_status: int
    ) -> None:
        self._app = app
        self._state = state
        self._metrics = metrics
        self._most = most
        self._overload_status = overload_status

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is admitted, and count it until it is answered."""
        if scope["type"] != "http" or scope["method"] in _WITHOUT_BODY:
            return await self._app(scope, receive, send)
        if refusal := self._refusal():
            return await send_error(send, refusal, RETRY_AFTER)
        self._state.in_flight += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._state.in_flight -= 1

    def _refusal(self) -> OpenAIError | None:
        if self._state.is_draining:
            self._metrics.rejected("draining")
            return shutting_down()
        if self._state.in_flight >= self._most:
            self._metrics.rejected("too_many_requests")
            return too_many_requests(self._overload_status)
        return None


class BodyLimit:
    """ASGI middleware: reads a body before anything else happens, so that a bad one has cost nothing but its bytes.

    More than `most_bytes` is 413, announced or not; a pause of `timeout_s` within it is 408.
    """

    def __init__(self, app: ASGIApp, metrics: GatewayMetrics, most_bytes: int, timeout_s: float) -> None:
        self._app = app
        self._metrics = metrics
        self._most_bytes = most_bytes
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request whose body is here."""
        if scope["type"] != "http" or scope["method"] in _WITHOUT_BODY:
            return await self._app(scope, receive, send)
        try:
            body = await self._read(Headers(scope=scope), receive)
        except OpenAIError as error:
            self._metrics.rejected("body_too_large" if error.status == 413 else "body_too_slow")
            return await send_error(send, error)
        if body is None:
            record_of(scope).is_disconnected = True
            return None
        return await self._app(scope, _after(body, receive), send)

    async def _read(self, headers: Headers, receive: Receive) -> bytes | None:
        """The body; None when the client left. Raises OpenAIError."""
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            raise bad_field("content-length", "must be a number of bytes")
        if int(length) > self._most_bytes:
            raise self._too_large()
        parts: list[bytes] = []
        num_bytes = 0
        while True:
            message = await self._next(receive)
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            num_bytes += len(parts[-1])
            if num_bytes > self._most_bytes:
                raise self._too_large()
            if not message.get("more_body", False):
                return b"".join(parts)

    async def _next(self, receive: Receive) -> Message:
        try:
            return await asyncio.wait_for(receive(), self._timeout_s)
        except asyncio.TimeoutError as error:
            raise OpenAIError(408, f"Nothing more of the request's body came for {self._timeout_s:g} s.") from error

    def _too_large(self) -> OpenAIError:
        return OpenAIError(413, f"The request's body is longer than {self._most_bytes} bytes, the most allowed.")


def _after(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives `body` whole, and then what comes after it: the client's leaving."""
    is_given = False

    async def give() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return give
