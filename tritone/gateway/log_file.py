"""A log file that several processes write whole lines to, and that never grows beyond a size or a day. In the gateway.

A full file, and one of an earlier day (UTC), is put aside as NAME.1, the one before becomes NAME.2, and so on. Others
may rename or truncate the file at any time: it is looked at before each line.
"""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path

from tritone.errors import TritoneError

_DAY_S = 86400


class LogFileError(TritoneError):
    """The log file cannot be written."""


@dataclass(frozen=True)
class LogFileLimits:
    """Files have at most `max_bytes`; `max_files` are kept, the current one too, and none older than `max_days`."""

    max_bytes: int
    max_files: int
    max_days: int


class LogFile:
    """The file `path`. Raises LogFileError if it cannot be opened; `write` raises OSError when the disk is full."""

    def __init__(self, path: str, limits: LogFileLimits) -> None:
        self._path = Path(path)
        self._limits = limits
        try:
            self._handle = self._open()
        except OSError as error:
            raise LogFileError(f"log_file: {path} cannot be written: {error.strerror}") from error

    def write(self, line: bytes) -> None:
        """Append a line, its end included, in one piece."""
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        while not self._has_name() or self._is_full(len(line)):
            if self._has_name():
                self._put_aside()
            self._reopen()
            fcntl.flock(self._handle, fcntl.LOCK_EX)
        try:
            os.write(self._handle, line)
        finally:
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._handle)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)

    def _reopen(self) -> None:
        handle = self._open()
        os.close(self._handle)  # and with it the lock
        self._handle = handle

    def _has_name(self) -> bool:
        """Whether the file that is open is the one that has the name now."""
        try:
            return os.path.samestat(os.fstat(self._handle), self._path.stat())
        except FileNotFoundError:
            return False

    def _is_full(self, num_bytes: int) -> bool:
        status = os.fstat(self._handle)
        is_of_today = status.st_mtime // _DAY_S >= time.time() // _DAY_S
        return status.st_size > 0 and not (is_of_today and status.st_size + num_bytes <= self._limits.max_bytes)

    def _put_aside(self) -> None:
        """Shift the numbers, the current file becomes the first, and what is too old or too many goes."""
        last = self._limits.max_files - 1
        self._numbered(last).unlink(missing_ok=True)
        for number in range(last - 1, -1, -1):
            if (newer := self._numbered(number)).exists():
                newer.replace(self._numbered(number + 1))
        oldest_s = time.time() - self._limits.max_days * _DAY_S
        for path in map(self._numbered, range(1, self._limits.max_files)):
            if path.exists() and path.stat().st_mtime < oldest_s:
                path.unlink()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path
