"""uvicorn's HTTP/1.1, with limits to how long and how large a request's head may be. Runs in each gateway worker."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tritone.gateway.openai_error import OpenAIError
from tritone.gateway.settings import GatewayConfig


class HttpProtocol(HttpToolsProtocol):
    """One connection. uvicorn takes a class, so the limits are the class's: see `limited_protocol`."""

    header_timeout_s: ClassVar[float]
    max_header_bytes: ClassVar[int]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._timer: asyncio.TimerHandle | None = None
        self._unread_bytes = 0
        self._header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Time the next head from its first byte, or the rest of a body that was refused: uvicorn times neither."""
        if self._timer is None and self.cycle is not None and self.cycle.response_complete:
            self._start_timer()
        super().data_received(data)
        is_rest = self.cycle is not None and self.cycle.more_body
        if self._timer and not is_rest:
            self._unread_bytes += len(data)
            if self._unread_bytes > self.max_header_bytes:
                self._end(self._too_large())

    def on_message_begin(self) -> None:
        """Begin to count."""
        self._header_bytes = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count; what is raised here stops the parser, and uvicorn answers with `send_400_response`."""
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > self.max_header_bytes:
            raise self._too_large()
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is here."""
        self._stop_timer()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, or has too much in its head."""
        is_too_large = self._header_bytes > self.max_header_bytes
        self._end(self._too_large() if is_too_large else OpenAIError(400, msg))

    def _too_large(self) -> OpenAIError:
        message = f"The request's head is longer than {self.max_header_bytes} bytes, the most allowed."
        return OpenAIError(431, message, type="invalid_request_error", code="head_too_large")

    def _start_timer(self) -> None:
        self._unread_bytes = 0
        self._timer = self.loop.call_later(self.header_timeout_s, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        if self._unread_bytes:
            self._end(OpenAIError(408, f"The request's head took longer than {self.header_timeout_s:g} s."))
        else:
            self.transport.close()

    def _end(self, error: OpenAIError) -> None:
        """Answer and hang up."""
        self._stop_timer()
        if not self.transport.is_closing():
            self.transport.write(_reply(error))
            self.transport.close()


def limited_protocol(config: GatewayConfig) -> type[HttpProtocol]:
    """The protocol with the limits of `config`."""
    limits = {"header_timeout_s": config.header_timeout_s, "max_header_bytes": config.max_header_bytes}
    return type("LimitedHttpProtocol", (HttpProtocol,), limits)


def _reply(error: OpenAIError) -> bytes:
    body = json.dumps(error.body()).encode()
    head = (
        f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
