"""A uvicorn server that goes on listening while it drains. Runs in each gateway worker, in its main thread.

At the first signal it only takes nothing new, which the app's layers see to: it still answers that it is not ready. It
ends when every answer is out, when the time for that is up, or at a second signal.
"""

from __future__ import annotations

import logging
import math
import socket
import time
from types import FrameType

import uvicorn

from tritone.gateway.health import GatewayState

logger = logging.getLogger(__name__)


class DrainingServer(uvicorn.Server):
    """`num_cut_off` is how many answers were not out in the end."""

    def __init__(self, config: uvicorn.Config, state: GatewayState, drain_timeout_s: float) -> None:
        super().__init__(config)
        self._state = state
        self._drain_timeout_s = drain_timeout_s
        self._ends_s = math.inf
        self.num_cut_off = 0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The signal handler."""
        if self._state.is_draining:
            self.should_exit = self.force_exit = True
            return
        self._state.drain()
        self._ends_s = time.monotonic() + self._drain_timeout_s

    async def on_tick(self, counter: int) -> bool:
        """Whether it is over; asked ten times a second."""
        is_over = await super().on_tick(counter)
        is_drained = self._state.is_draining and not self._state.in_flight
        return is_over or is_drained or time.monotonic() >= self._ends_s

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Give what was written the time that is left to get out, and end what was not."""
        self.num_cut_off = self._state.in_flight
        if self.num_cut_off:
            logger.warning("%d open answers were cut off", self.num_cut_off)
            for task in self.server_state.tasks:
                task.cancel()
        left_s = 0 if self.num_cut_off or self.force_exit else self._ends_s - time.monotonic()
        self.config.timeout_graceful_shutdown = max(1, math.ceil(min(left_s, self._drain_timeout_s)))
        await super().shutdown(sockets)
        if self.force_exit:  # uvicorn leaves this out then, but the engine is to hear what nobody wants any more
            await self.lifespan.shutdown()
