"""Carries the server's output from its pipe into our log, to the last byte. A thread of the launcher's process."""

from __future__ import annotations

import logging
import os
import re
import select
import threading
from collections import deque
from typing import IO

from tritone.server_log import Record, RecordReader

QUIET_S = 0.1  # a record is complete when nothing follows for so long
LONGEST_LINE = 1 << 16
_CHUNK = 1 << 16
_CLOSE_TIMEOUT_S = 5.0
_LOADING = re.compile(r"loading: (.+):\d+")
_LOADED = re.compile(r"successfully loaded '(.+)'")
_FAILED = re.compile(r"failed to load '(.+?)'")


class ServerOutput:
    """Reads `pipe` to its end and closes it. `loading` and `failed` are the models that are and could not be loaded."""

    def __init__(self, pipe: IO[bytes], is_gpu_host: bool) -> None:
        self._pipe = pipe
        self._reader = RecordReader(is_gpu_host)
        self._thread = threading.Thread(target=self._run, name="server-output", daemon=True)
        self.loading: set[str] = set()
        self.failed: set[str] = set()
        self._has_begun = False
        self.last_errors: deque[str] = deque(maxlen=5)
        self._thread.start()

    def settle(self) -> None:
        """Let what has been written so far be read."""
        self._thread.join(3 * QUIET_S)

    def join(self) -> None:
        """Wait until everything has been read; every process that could write has ended by now."""
        self._thread.join(_CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        rest = b""
        while chunk := self._next_chunk():
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > LONGEST_LINE:
                lines, rest = [*lines, rest], b""
            self._take(lines)
        self._take([rest])
        self._take_open()
        self._pipe.close()

    def _next_chunk(self) -> bytes:
        """What comes next, b"" at the end; records that were left open are written in the meantime."""
        while not select.select([self._pipe], [], [], QUIET_S)[0]:
            self._take_open()
        return os.read(self._pipe.fileno(), _CHUNK)

    def _take(self, lines: list[bytes]) -> None:
        for line in lines:
            for record in self._reader.feed(line.decode("utf-8", "backslashreplace").rstrip("\r")):
                self._emit(record)

    def _take_open(self) -> None:
        for record in self._reader.flush():
            self._emit(record)

    def _emit(self, record: Record) -> None:
        self._note(record)
        logging.getLogger(record.source).log(record.level, "%s", record.message)

    def _note(self, record: Record) -> None:
        self._has_begun |= record.source != "server"
        if record.level >= logging.ERROR or not self._has_begun:  # the system's words, when it cannot even start
            self.last_errors.append(record.message)
        if match := _LOADING.match(record.message):
            self.loading.add(match[1])
        elif match := _LOADED.match(record.message):
            self.loading.discard(match[1])
        elif match := _FAILED.match(record.message):
            self.loading.discard(match[1])
            self.failed.add(match[1])
