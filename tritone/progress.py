"""How a user sees that a download or an unpacking is getting on. Runs in our process, writes to stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

Progress = Callable[[str, int, int], None]
"""Called as (what is being done, bytes done, bytes in all), many times for one `what`, at last with done == all."""

_MB = 1_000_000
_QUARTERS = 4


class StderrProgress:
    """On a terminal one line that is redrawn; elsewhere (CI, a log file) a line for each quarter."""

    def __init__(self) -> None:
        self._last: tuple[str, int] = ("", -1)

    def __call__(self, what: str, done_bytes: int, total_bytes: int) -> None:
        is_terminal = sys.stderr.isatty()
        step = done_bytes * (100 if is_terminal else _QUARTERS) // max(total_bytes, 1)
        if (what, step) == self._last:
            return
        self._last = (what, step)
        line = f"{what}: {done_bytes / _MB:.1f} of {total_bytes / _MB:.1f} MB"
        is_open = is_terminal and done_bytes < total_bytes
        # An open line ends in a carriage return, so that an error message is written over it.
        click.echo(f"{line}\x1b[K\r" if is_open else line, err=True, nl=not is_open)


show_progress: Progress = StderrProgress()
