"""SIGTERM, SIGINT and SIGHUP as a request to stop, the second as an order. Runs in the launcher's main thread.

A handler runs between any two steps of that thread, so it must not take a lock: a threading.Event's `set` hangs for
ever when the signal comes while `wait` holds the event's own. It writes to a pipe instead.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopSignals:
    """Counts the signals that have come."""

    def __init__(self) -> None:
        self._count = 0
        self._is_interrupting = False
        self._reader, self._writer = os.pipe()

    def wait(self, seconds: float) -> bool:
        """Wait for a signal, at most so long; whether there has been one."""
        return bool(select.select([self._reader], [], [], seconds)[0])  # never read: it stays true

    @property
    def is_requested(self) -> bool:
        """Whether a signal has come."""
        return self._count > 0

    @property
    def is_forced(self) -> bool:
        """Whether a second signal has come: what still runs is to be ended at once."""
        return self._count > 1

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """In here the first signal raises KeyboardInterrupt: there is nothing yet that would have to end by itself."""
        self._is_interrupting = True
        try:
            yield
        finally:
            self._is_interrupting = False

    def note(self, number: int, frame: FrameType | None) -> None:
        """The signal handler."""
        self._count += 1
        if self._count == 1:
            os.write(self._writer, b"!")
        if self._is_interrupting and self._count == 1:
            raise KeyboardInterrupt

    def close(self) -> None:
        """Give the pipe back; no signal may be noted any more."""
        os.close(self._reader)
        os.close(self._writer)


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Catch the signals until the end of the block, which nothing interrupts then but `interrupting`."""
    stop = StopSignals()
    previous = {number: signal.signal(number, stop.note) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        stop.close()
