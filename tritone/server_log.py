"""Turns what the server and its stages write into log records of ours. Runs in the launcher's process.

Triton writes lines such as `I1201 07:25:20.756610 8313 grpc_server.cc:2558] "Started …"` and tables, the stages
`I engine: …` and tracebacks, vLLM `(EngineCore pid=8) INFO 12-01 07:25:20 [core.py:1] …` before every line, libraries
whatever they like: all of it into one pipe, and none of it may get lost.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TRITON = re.compile(r"([IWEF])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ([\w-]+)\.\w+:\d+\] ?(.*)")
_STAGE = re.compile(r"([DIWEC]) (preprocess|engine|postprocess): (.*)")
_VLLM = re.compile(r"\([\w-]+ pid=\d+\) ([DIWEC])[A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?(.*)")
_LEVELS = {
    "D": logging.DEBUG,
    "I": logging.INFO,
    "W": logging.WARNING,
    "E": logging.ERROR,
    "C": logging.CRITICAL,
    "F": logging.CRITICAL,
}
_NO_GPU = re.compile(r"CUDA|CudaDriverHelper|pinned (system )?memory")
_TABLE = ("+-", "| ")
_TRACEBACK = ("Traceback (most recent", "During handling of the above", "The above exception was")


@dataclass
class Record:
    """One record: its `level` as in logging, who wrote it, and its lines."""

    level: int
    source: str
    lines: list[str] = field(default_factory=list)

    @property
    def message(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines).strip("\n")

    def takes(self, line: str) -> bool:
        """Whether `line`, which has no head of its own, goes on with this record: a table or a traceback."""
        last = self.lines[-1]
        if line.startswith(_TABLE):
            return not last or last.startswith(_TABLE)
        if line.startswith(_TRACEBACK):
            return self.level >= logging.ERROR
        is_traceback = any(each.startswith(_TRACEBACK) for each in self.lines)
        return is_traceback and (line.startswith(" ") or last.startswith(" "))


class RecordReader:
    """Makes records of lines. A record is complete when the next begins, or when `flush` says that none follows."""

    def __init__(self, is_gpu_host: bool) -> None:
        self._is_gpu_host = is_gpu_host
        self._open: Record | None = None

    def feed(self, line: str) -> Iterator[Record]:
        """Take one line without its end; yields the record it completes, if any."""
        head = parse_head(line)
        if head is None and not line.strip():
            return
        if self._open and (head is None or head.source == "vllm"):  # which has a head before every line of a traceback
            text = head.lines[0] if head else line
            if self._open.takes(text):
                self._open.lines.append(text)
                return
        yield from self.flush()
        self._open = head or _headless(line)

    def flush(self) -> Iterator[Record]:
        """Yield the record that is still open, if any."""
        record, self._open = self._open, None
        if record is None:
            return
        is_table = record.lines[-1].startswith(_TABLE)
        is_harmless = not self._is_gpu_host and record.source.startswith("triton") and _NO_GPU.search(record.message)
        if is_table or is_harmless:
            record.level = logging.DEBUG
        yield record


def parse_head(line: str) -> Record | None:
    """The record that `line` begins, None if it begins none."""
    if match := _TRITON.fullmatch(line):
        letter, source, text = match.groups()
        return Record(_LEVELS[letter], f"triton.{source}", [_unquoted(text)])
    if match := _STAGE.fullmatch(line):
        letter, source, text = match.groups()
        return Record(_LEVELS[letter], source, [text])
    if match := _VLLM.fullmatch(line):
        letter, text = match.groups()
        return Record(_LEVELS[letter], "vllm", [text])
    return None


def _headless(line: str) -> Record:
    level = logging.ERROR if line.startswith(_TRACEBACK) else logging.INFO
    return Record(level, "server", [line])


def _unquoted(text: str) -> str:
    """Newer servers write the text as a JSON string."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str) else text
