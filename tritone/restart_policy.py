"""How long to wait before a server that died is started again, and when to give up. Runs in the launcher's process."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
HEALTHY_S = 60.0
MOST_RESTARTS = 5
WINDOW_S = 300.0


@dataclass
class RestartPolicy:
    """The delay doubles with every death, and begins anew after a life of HEALTHY_S. Times are of one steady clock."""

    _delay_s: float = FIRST_DELAY_S
    _restarts_s: deque[float] = field(default_factory=deque)

    def delay_s(self, started_s: float, died_s: float) -> float | None:
        """Seconds to wait before the restart; None when there were MOST_RESTARTS within WINDOW_S already."""
        while self._restarts_s and died_s - self._restarts_s[0] > WINDOW_S:
            self._restarts_s.popleft()
        if len(self._restarts_s) == MOST_RESTARTS:
            return None
        if died_s - started_s >= HEALTHY_S:
            self._delay_s = FIRST_DELAY_S
        delay_s = self._delay_s
        self._delay_s = min(2 * delay_s, LONGEST_DELAY_S)
        self._restarts_s.append(died_s)
        return delay_s
