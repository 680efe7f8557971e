"""An error as an answer of bare ASGI, for what must be refused before a framework sees it. Runs in the gateway."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.types import Send

from tritone.gateway.openai_error import OpenAIError


async def send_error(send: Send, error: OpenAIError, headers: Mapping[str, str] | None = None) -> None:
    """Answer with the error's status and JSON, and `headers` besides."""
    body = json.dumps(error.body()).encode()
    own = {"content-type": "application/json", "content-length": str(len(body))}
    pairs = [(name.encode(), value.encode()) for name, value in {**own, **(headers or {})}.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
