"""Server-sent events as bytes: one `data:` line each, in ASCII, so that no client splits a line where it should not."""

from __future__ import annotations

import json
from typing import Any

CONTENT_TYPE = "text/event-stream; charset=utf-8"
DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"


def event(payload: dict[str, Any]) -> bytes:
    """The event for a JSON object."""
    return frame(json.dumps(payload, separators=(",", ":")))


def frame(ascii_json: str) -> bytes:
    """The event for JSON that is text already, ASCII and one line, as `json.dumps` writes it."""
    return f"data: {ascii_json}\n\n".encode("ascii")
