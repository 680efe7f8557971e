"""A file of when the scripted engine made which token, so that a benchmark can say how long tokens are under way.

Runs in the engine stage. Each delta is a line: the request's key, how many ids it has made so far, and the time in
nanoseconds of the monotonic clock, which every process of the machine shares.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from .adapter import TokenDelta


class TokenTrace:
    """Appends to the file `path`; whoever reads it sees whole lines at once."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._made: dict[int, int] = {}

    def write(self, deltas: Sequence[TokenDelta]) -> None:
        """Note that these deltas are being handed over now."""
        now_ns = time.monotonic_ns()
        lines = []
        for delta in deltas:
            made = self._made.pop(delta.key, 0) + len(delta.ids)
            if not delta.finish_reason:
                self._made[delta.key] = made
            lines.append(f"{delta.key} {made} {now_ns}\n")
        os.write(self._file, "".join(lines).encode("ascii"))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
