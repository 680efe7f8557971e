"""Takes the client's `x-request-id` and W3C trace context from a request's head. Runs in the gateway.

A client's id is echoed and logged, but never a key: two requests may have the same.
"""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from tritone.gateway.asgi_reply import send_error
from tritone.gateway.openai_error import bad_field
from tritone.gateway.request_record import RequestRecord, record_of

HEADER = "x-request-id"
LONGEST_ID = 128

_ID = re.compile(rf"[A-Za-z0-9._:/+=@-]{{1,{LONGEST_ID}}}")
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?P<rest>-.*)?")
_TRACESTATE = re.compile(r"[ -~]{1,512}")


class RequestIds:
    """ASGI middleware: completes the record with what the client calls the request, or refuses it with 400."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request whose id can be used."""
        if scope["type"] == "http":
            headers, record = Headers(scope=scope), record_of(scope)
            record.trace_headers = trace_headers(headers)
            given = headers.get(HEADER)
            if given is not None and not _take(given, record):
                rule = f"must be 1 to {LONGEST_ID} of the characters A-Z a-z 0-9 . _ : / + = @ -"
                return await send_error(send, bad_field(HEADER, rule))
        await self._app(scope, receive, send)


def trace_headers(headers: Headers) -> dict[str, str]:
    """The trace context to pass on; empty if there is none or, as W3C wants it, if it is malformed."""
    traceparent = headers.get("traceparent", "")
    match = _TRACEPARENT.fullmatch(traceparent)
    if not match or (match["rest"] and traceparent.startswith("00")):
        return {}
    state = headers.get("tracestate", "")
    return {"traceparent": traceparent, **({"tracestate": state} if _TRACESTATE.fullmatch(state) else {})}


def _take(given: str, record: RequestRecord) -> bool:
    if not _ID.fullmatch(given):
        return False
    record.id = given
    record.internal_id = f"{given}-{record.internal_id[:12]}"
    return True
