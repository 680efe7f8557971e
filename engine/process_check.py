"""Whether another process still runs. Runs in the engine stage."""

from __future__ import annotations

from pathlib import Path


def is_alive(pid: int) -> bool:
    """False for a process that is gone or a zombie, which Triton leaves when a stage is killed."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return False
    # the name before it may hold anything, blanks and brackets too
    return stat.rpartition(")")[2].split()[0] not in "ZX"
