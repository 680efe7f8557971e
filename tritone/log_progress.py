"""How a download is getting on as log records, where stderr holds nothing but those. Runs in the launcher's process."""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)

_MB = 1_000_000
_QUARTERS = 4


class LogProgress:
    """A record for each quarter."""

    def __init__(self) -> None:
        self._last: tuple[str, int] = ("", -1)

    def __call__(self, what: str, done_bytes: int, total_bytes: int) -> None:
        step = (what, done_bytes * _QUARTERS // max(total_bytes, 1))
        if step != self._last:
            self._last = step
            logger.info("%s: %.1f of %.1f MB", what, done_bytes / _MB, total_bytes / _MB)
