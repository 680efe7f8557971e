"""The stream table: one row per live stream, shared by the engine stage and postprocess.

A memory-mapped file, so that an acknowledgement costs a store and not a message. Runs in both stages; `assemble`
copies this one file to each. Every field has a single writer and is one aligned 64-bit word, so no lock is needed:
the engine owns `generation` and `sent`, postprocess owns `acked` and `stop`. What postprocess writes carries the
generation, so that a late word about an earlier stream of the same row means nothing. One more row, the last, holds
postprocess's process id, so that the engine notices when there is nobody to acknowledge anything.
"""

from __future__ import annotations

import mmap
import os
from collections import deque
from pathlib import Path
from typing import NamedTuple

FIELDS = 4
GENERATION, SENT, ACKED, STOP = range(FIELDS)
WORD_BYTES = 8
CHUNK_BITS = 32
CHUNK_MASK = (1 << CHUNK_BITS) - 1


class StreamKey(NamedTuple):
    """Names one stream for its whole life. A row is used again, a (row, generation) pair never is."""

    row: int
    generation: int


class TableFullError(Exception):
    """Every row holds a live stream."""


def table_path(run_dir: str | os.PathLike[str], server_pid: int, engine_model: str) -> Path:
    """Where the engine model's table lies: both stages are children of one server, so both know its pid."""
    return Path(run_dir) / f"streams-{server_pid}-{engine_model}"


class StreamTable:
    """A view of the table file. Words are uint64; `rows` is the most streams that can live at once."""

    def __init__(self, path: Path, rows: int | None = None) -> None:
        """Open the table at `path`; with `rows`, make it anew and zeroed (the engine's side)."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if rows else 0)
        handle = os.open(path, flags, 0o600)
        try:
            if rows:
                os.ftruncate(handle, 0)
                os.ftruncate(handle, (rows + 1) * FIELDS * WORD_BYTES)
            self._map = mmap.mmap(handle, os.fstat(handle).st_size)
        finally:
            os.close(handle)
        self.path = path
        self._words = memoryview(self._map).cast("Q")
        self.rows = len(self._words) // FIELDS - 1

    def close(self) -> None:
        """Unmap the file; it stays on disk."""
        self._words.release()
        self._map.close()

    def _get(self, row: int, field: int) -> int:
        return self._words[row * FIELDS + field]

    def _set(self, row: int, field: int, value: int) -> None:
        self._words[row * FIELDS + field] = value


class EngineTable(StreamTable):
    """The engine's side: opens rows, counts what was sent, reads what came back."""

    def __init__(self, path: Path, rows: int) -> None:
        super().__init__(path, rows)
        # first in, first out: a freed row is used again as late as can be
        self._free = deque(range(self.rows))
        self._generation = 0
        self._awaited: dict[int, int] = {}  # by row: the word that acknowledges the last chunk

    @property
    def live(self) -> int:
        """Rows in use."""
        return self.rows - len(self._free)

    def open(self) -> StreamKey:
        """Take a row for a new stream. Raises TableFullError when there is none."""
        if not self._free:
            raise TableFullError(f"too many requests: all {self.rows} rows of the stream table are in use")
        row = self._free.popleft()
        self._generation = self._generation % CHUNK_MASK + 1
        self._set(row, SENT, 0)
        self._set(row, GENERATION, self._generation)
        return StreamKey(row, self._generation)

    def free(self, key: StreamKey) -> None:
        """Give the row back. Postprocess sees the generation gone and drops what it holds for the stream."""
        self._awaited.pop(key.row, None)
        self._set(key.row, GENERATION, 0)
        self._free.append(key.row)

    def send(self, key: StreamKey) -> int:
        """Count one more chunk, whose acknowledgement is awaited from now on, and return its index; the first is 1."""
        chunk = self._get(key.row, SENT) + 1
        self._set(key.row, SENT, chunk)
        self._awaited[key.row] = key.generation << CHUNK_BITS | chunk
        return chunk

    def take_acked(self) -> list[int]:
        """The rows whose awaited acknowledgement has come, each once. As little work as chunks are in flight."""
        rows = [row for row, word in self._awaited.items() if self._get(row, ACKED) == word]
        for row in rows:
            del self._awaited[row]
        return rows

    @property
    def postprocess_pid(self) -> int:
        """Postprocess's process id; 0 until it has opened the table."""
        return self._get(self.rows, GENERATION)

    def is_stopped(self, key: StreamKey) -> bool:
        """Whether postprocess has seen the end of the answer."""
        return self._get(key.row, STOP) == key.generation


class PostprocessTable(StreamTable):
    """Postprocess's side: acknowledges chunks and tells the engine to stop."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._set(self.rows, GENERATION, os.getpid())

    def is_live(self, key: StreamKey) -> bool:
        """Whether the engine still holds the stream."""
        return key.row < self.rows and self._get(key.row, GENERATION) == key.generation

    def ack(self, key: StreamKey, chunk: int) -> None:
        """Let the engine send the chunk after `chunk`."""
        if self.is_live(key):
            self._set(key.row, ACKED, key.generation << CHUNK_BITS | chunk)

    def stop(self, key: StreamKey) -> None:
        """Tell the engine that the answer is complete; to be called before `ack`, so that the two are seen in order."""
        if self.is_live(key):
            self._set(key.row, STOP, key.generation)
