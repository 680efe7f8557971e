"""How log records are written to stderr: a line for each, as text or JSON. Runs in the launcher's process.

What a record says may come from a client, so nothing in it can end the line or reach the terminal's controls.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime, timezone

from tritone.config import LogFormat, LogLevel


class TextFormatter(logging.Formatter):
    """`time level source message`, control characters escaped."""

    def format(self, record: logging.LogRecord) -> str:
        clock = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        return f"{clock} {record.levelname:<7} {record.name} {escaped(_message(self, record))}"


class JsonFormatter(logging.Formatter):
    """An object with `time` (UTC), `level`, `source` and `message`, in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="microseconds")
        fields = {
            "time": time,
            "level": record.levelname.lower(),
            "source": record.name,
            "message": _message(self, record),
        }
        return json.dumps(fields)


def set_up_logging(log_format: LogFormat, log_level: LogLevel) -> None:
    """Send this process's records to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=log_level.upper(), handlers=[handler], force=True)


def escaped(text: str) -> str:
    """`text` with everything that is not printable written as an escape sequence."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _message(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    message = record.getMessage()
    return f"{message}\n{formatter.formatException(record.exc_info)}" if record.exc_info else message
