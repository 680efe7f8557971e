"""How many users there are when: the shapes of a load that changes. Runs on the load host; no clock, no I/O."""

from __future__ import annotations

SHAPES = ("constant", "steps", "spike")
"""All users from the start; more of them in equal steps; a tenth, with all of them in the middle third."""


def users_at(shape: str, elapsed_s: float, users: int, run_time_s: float, steps: int) -> int:
    """Users wanted `elapsed_s` after the start of a run of `run_time_s`; at least 1, at most `users`."""
    part = min(max(elapsed_s / run_time_s, 0.0), 1.0)
    if shape == "steps":
        return max(1, round(users * min(steps, int(part * steps) + 1) / steps))
    if shape == "spike":
        return users if 1 / 3 <= part < 2 / 3 else max(1, round(users / 10))
    return users
