"""Keeps a server running: starts it, watches it and its stages, and starts it again when one of them has died.

Runs in the launcher's main thread. Triton does not start a dead stage again, and goes on to call itself ready while
requests hang; so the death of a stage is made the end of the server, which frees its clients with an error.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from tritone.config import Config
from tritone.gateway_child import GatewayChild
from tritone.loading import wait_until_ready
from tritone.ports import reachable
from tritone.restart_policy import MOST_RESTARTS, WINDOW_S, RestartPolicy
from tritone.run_dir import RunDir
from tritone.server_process import ServerError, ServerProcess
from tritone.server_state import ServerAddress
from tritone.stop_signals import StopSignals

logger = logging.getLogger(__name__)

POLL_S = 0.1
LAST_WORDS_S = 0.3  # what the other stages have to get their last answers out when one has died
ADMITTED_S = 0.5  # what the gateway has taken on has reached the engine by then, and is not refused there
QUIET_POLLS = 3
UNLOAD_TIMEOUT_S = 5.0  # Triton takes two seconds, but for ever when an idle connection is open


class Supervisor:
    """One server after the other, until told to stop.

    `launch` starts one; `on_ready` is called for each that is ready, with whether it is the first.
    """

    def __init__(
        self,
        config: Config,
        run: RunDir,
        stop: StopSignals,
        launch: Callable[[], ServerProcess],
        on_ready: Callable[[bool], None],
        gateway: GatewayChild | None = None,
    ) -> None:
        self._config = config
        self._address = ServerAddress(reachable(config.host), config.http_port, config.metrics_port)
        self._run = run
        self._stop = stop
        self._launch = launch
        self._on_ready = on_ready
        self._gateway = gateway
        self._policy = RestartPolicy()
        self._was_ready = False

    def serve(self) -> bool:
        """Serve until told to stop; whether every stream could end by itself.

        Raises ServerError when the first server does not become ready, or servers die too often, and GatewayError.
        """
        if not self._gateway:
            return self._serve()
        try:
            self._gateway.start()
            return self._serve() and self._gateway.is_complete()
        finally:
            self._gateway.kill()

    def _serve(self) -> bool:
        while True:
            started_s = time.monotonic()
            server = self._launch()
            try:
                death = self._live(server)
                if not death:
                    return self._drain(server)
            finally:
                server.kill()
                self._run.clear_server()
            self._wait_for_restart(started_s, death)
            if self._stop.is_requested:
                self._drain_gateway(time.monotonic() + UNLOAD_TIMEOUT_S)
                return True

    def _live(self, server: ServerProcess) -> str:
        """What has died, or why the server does not become ready; "" when told to stop."""
        if problem := wait_until_ready(server, self._address, self._stop, self._config.ready_timeout):
            return problem
        if self._gateway and not self._was_ready:
            self._gateway.wait_until_up(self._stop)
        if not self._stop.is_requested:
            self._on_ready(not self._was_ready)
            self._was_ready = True
        while not self._stop.wait(POLL_S):
            if self._gateway:
                self._gateway.keep_alive()
            if death := server.death():
                server.terminate()
                time.sleep(LAST_WORDS_S)
                return death
        return ""

    def _wait_for_restart(self, started_s: float, death: str) -> None:
        if not self._was_ready:
            raise ServerError(death)
        delay_s = self._policy.delay_s(started_s, time.monotonic())
        if delay_s is None:
            raise ServerError(f"{death}; not started again after {MOST_RESTARTS} restarts within {WINDOW_S:.0f} s")
        logger.error("%s: the server was stopped and is started again in %g s", death, delay_s)
        self._stop.wait(delay_s)

    def _drain(self, server: ServerProcess) -> bool:
        """Let the streams end, then the server; whether they all have."""
        timeout_s = self._config.drain_timeout
        ends_s = time.monotonic() + timeout_s
        logger.info("stopping; open streams have %g s to end, a second signal cuts them off", timeout_s)
        self._drain_gateway(time.monotonic() + ADMITTED_S)
        self._run.start_draining()
        self._wait_for_streams(server, ends_s)
        cut_off = self._run.live_streams()
        if cut_off:
            logger.warning("%d open streams were cut off", cut_off)
            return False
        server.terminate()
        self._wait_until(server.has_ended, time.monotonic() + UNLOAD_TIMEOUT_S)
        return True

    def _drain_gateway(self, ends_s: float) -> None:
        if self._gateway:
            self._gateway.terminate()
            self._wait_until(self._gateway.has_ended, ends_s)

    def _wait_until(self, condition: Callable[[], bool], ends_s: float) -> None:
        while not (condition() or self._stop.is_forced) and time.monotonic() < ends_s:
            time.sleep(POLL_S)

    def _wait_for_streams(self, server: ServerProcess, ends_s: float) -> None:
        """Wait until there are no streams, or no hope. Triton hears of it later: it would stop serving gRPC."""
        quiet_polls = 0  # what was just let in may not be a stream yet
        while quiet_polls < QUIET_POLLS and time.monotonic() < ends_s:
            if self._stop.is_forced or server.death():
                return
            time.sleep(POLL_S)
            is_quiet = not self._run.live_streams() and (self._gateway is None or self._gateway.has_ended())
            quiet_polls = quiet_polls + 1 if is_quiet else 0
