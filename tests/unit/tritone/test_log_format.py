from __future__ import annotations

import json
import logging
import re
import sys
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritone.log_format import JsonFormatter, TextFormatter, escaped

NOON_S = datetime(2026, 12, 1, 12, 0, 0, 250_000).timestamp()


def record(message: str) -> logging.LogRecord:
    made = logging.LogRecord("engine", logging.WARNING, "file.py", 1, "%s", (message,), None)
    made.created = NOON_S
    return made


def test_text() -> None:
    assert TextFormatter().format(record("a b")) == "12:00:00.250 WARNING engine a b"


def test_json() -> None:
    fields = json.loads(JsonFormatter().format(record('a "b"')))
    assert datetime.fromisoformat(fields.pop("time")).timestamp() == NOON_S
    assert fields == {"level": "warning", "source": "engine", "message": 'a "b"'}


def test_a_forged_record_and_terminal_controls_are_escaped() -> None:
    text = TextFormatter().format(record("\n[ERROR] fake \x1b[31m\x00\u2028模型"))
    assert text == "12:00:00.250 WARNING engine \\n[ERROR] fake \\x1b[31m\\x00\\u2028模型"


def test_an_exception_is_in_the_record() -> None:
    made = record("failed")
    try:
        raise ValueError("why")
    except ValueError:
        made.exc_info = sys.exc_info()
    assert TextFormatter().format(made).endswith("\\nValueError: why")
    assert json.loads(JsonFormatter().format(made))["message"].endswith("\nValueError: why")


@given(st.text(st.characters(codec=None)))
@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_every_record_is_one_printable_line(formatter: logging.Formatter, message: str) -> None:
    line = formatter.format(record(message))
    assert line.isprintable()
    assert len(line.splitlines()) == 1


@given(st.text(st.characters(exclude_characters="\\", codec="utf-8")))
def test_nothing_is_lost_by_escaping(message: str) -> None:
    restored = re.sub(
        r"\\(x..|u.{4}|U.{8}|[nrt])", lambda match: match[0].encode("ascii").decode("unicode_escape"), escaped(message)
    )
    assert restored == message
