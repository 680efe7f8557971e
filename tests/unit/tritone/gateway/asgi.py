"""Drives an ASGI app by hand: a request goes in message by message, and what it answers is looked at. No socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

DISCONNECT: Message = {"type": "http.disconnect"}
NEVER: Message = {"type": "never"}  # from here on the client says nothing


@dataclass
class Answer:
    """What was sent back."""

    messages: list[Message] = field(default_factory=list)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.messages[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages[1:])

    @property
    def error(self) -> dict[str, Any]:
        return dict(json.loads(self.body)["error"])


def scope(method: str = "POST", path: str = "/v1/completions", headers: Mapping[str, str] | None = None) -> Scope:
    pairs = [(name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items()]
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": pairs,
        "client": ("192.0.2.1", 4711),
        "scheme": "http",
        "server": ("192.0.2.2", 9000),
        "http_version": "1.1",
    }


def body(*parts: bytes) -> list[Message]:
    """A request's body in so many messages."""
    return [
        {"type": "http.request", "body": part, "more_body": index < len(parts)} for index, part in enumerate(parts, 1)
    ]


def call(app: ASGIApp, request: Scope, messages: Iterable[Message] = ()) -> Answer:
    """The answer to one request, whose client says `messages` (an empty body if none) and then nothing more."""
    return asyncio.run(acall(app, request, messages))


async def acall(app: ASGIApp, request: Scope, messages: Iterable[Message] = ()) -> Answer:
    """As `call`, in a running loop."""
    pending = iter([*(messages or body(b"")), NEVER])
    answer = Answer()

    async def receive() -> Message:
        message = next(pending)
        if message is NEVER:
            await asyncio.Event().wait()
        return message

    async def send(message: Message) -> None:
        answer.messages.append(message)

    await app(request, receive, send)
    return answer


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """An app that answers with the body it got, in one message for each it got."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    more = True
    while more:
        message = await receive()
        more = message.get("more_body", False)
        await send({"type": "http.response.body", "body": message["body"], "more_body": more})
