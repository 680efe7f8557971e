"""One line of JSON for each request, and its place in the metrics. Runs in the gateway, around everything else.

A line holds no prompt, answer or key, unless the app has put content into the record because that is switched on.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tritone.gateway.asgi_reply import send_error
from tritone.gateway.health import OPEN_PATHS
from tritone.gateway.log_file import LogFile, LogFileLimits
from tritone.gateway.metrics import PATH as METRICS_PATH
from tritone.gateway.metrics import GatewayMetrics
from tritone.gateway.openai_error import internal_error
from tritone.gateway.request_id import HEADER
from tritone.gateway.request_record import RequestRecord, new_record
from tritone.gateway.settings import GatewayConfig

logger = logging.getLogger(__name__)

LineWriter = Callable[[bytes], object]

_PROBES = OPEN_PATHS | {METRICS_PATH}  # asked every few seconds: neither logged nor counted
_LONGEST_MODEL = 128


class AccessLog:
    """ASGI middleware: makes the request's record, tells the client its id, and writes the record down at the end."""

    def __init__(self, app: ASGIApp, write: LineWriter, metrics: GatewayMetrics) -> None:
        self._app = app
        self._write = write
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on every request. What nobody has caught is answered here with a fixed text."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        record = new_record(scope)
        reply = _Reply(record, receive, send)
        is_probe = scope["path"] in _PROBES
        if not is_probe:
            self._metrics.started()
        try:
            await self._app(scope, reply.receive, reply.send)
        except Exception as error:
            record.error = record.error or failure(error)
            logger.error("request %s failed: %s", record.id, failure(error))
            if not record.status:
                await send_error(reply.send, internal_error(record.id))
        finally:
            if not is_probe:
                self._end(scope, record, reply)

    def _end(self, scope: Scope, record: RequestRecord, reply: _Reply) -> None:
        record.is_disconnected = record.is_disconnected and not reply.is_complete
        if not (reply.is_complete or record.is_disconnected):
            record.error = record.error or "the answer was broken off"
        self._metrics.ended(record, getattr(scope.get("route"), "path", "other"))
        try:
            self._write(json.dumps(_line(record)).encode() + b"\n")
        except OSError as error:
            logger.error("the log of requests cannot be written: %s", error.strerror)


class _Reply:
    """The two ends of a connection, watched for what becomes of the answer."""

    def __init__(self, record: RequestRecord, receive: Receive, send: Send) -> None:
        self._record = record
        self._receive = receive
        self._send = send
        self.is_complete = False

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect" and not self.is_complete:
            self._record.is_disconnected = True
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._record.status = message["status"]
            headers = [*message.get("headers", ()), (HEADER.encode(), self._record.id.encode())]
            message = {**message, "headers": headers}
        elif not message.get("more_body", False):
            self.is_complete = not self._record.is_disconnected
        await self._send(message)


def line_writer(config: GatewayConfig) -> LineWriter:
    """Where the lines go: the log file, or stderr. Raises LogFileError."""
    if config.log_file is None:
        return _write_to_stderr
    return LogFile(
        config.log_file, LogFileLimits(config.log_max_bytes, config.log_max_files, config.log_max_days)
    ).write


def failure(error: BaseException) -> str:
    """What an unexpected error is and where it was raised, without its text: that may hold what a client has sent."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    places = " < ".join(f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in reversed(frames))
    return f"{type(error).__name__} at {places}"


def _write_to_stderr(line: bytes) -> None:
    os.write(sys.stderr.fileno(), line)


def _line(record: RequestRecord) -> dict[str, Any]:
    now_s = time.monotonic()
    first_s = record.first_token_s
    fields: dict[str, Any] = {
        "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        "request_id": record.id,
        "triton_request_id": record.internal_id,
        "client": record.client,
        "method": record.method,
        "path": record.path,
        "status": record.status,
        "outcome": record.outcome,
        "model": record.model[:_LONGEST_MODEL],
        "stream": record.is_stream,
        "prompt_tokens": record.num_prompt_tokens,
        "completion_tokens": record.num_generation_tokens,
        "finish_reasons": record.finish_reasons,
        "ttft_ms": None if first_s is None else round(1000 * (first_s - record.started_s), 1),
        "duration_ms": round(1000 * (now_s - record.started_s), 1),
    }
    if record.error:
        fields["error"] = record.error
    if record.prompt is not None:
        answers = ["".join(parts) for parts in record.answers]
        fields["content"] = {"prompt": record.prompt, "answers": answers}
    return fields
