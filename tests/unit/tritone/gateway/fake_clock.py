"""Stands for the module `time` where only its `monotonic` may be asked, and moves only when told."""

from __future__ import annotations


class Clock:
    """Seconds, moved by hand."""

    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s
