"""Several workers on one listening socket, each started again when it dies. Runs in the gateway's first process."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import tempfile
import time

from prometheus_client.multiprocess import mark_process_dead

from tritone.errors import TritoneError
from tritone.gateway.process import METRICS_DIR_VARIABLE, start
from tritone.gateway.settings import GatewayConfig
from tritone.restart_policy import MOST_RESTARTS, WINDOW_S, RestartPolicy
from tritone.run_dir import VARIABLE
from tritone.stop_signals import StopSignals, stop_signals

logger = logging.getLogger(__name__)

POLL_S = 0.1
_COMPLETE = (0, -signal.SIGTERM)  # SIGTERM kills a worker only before it can answer
_GRACE_S = 5.0  # what workers may take beyond the time to drain before they are killed


class WorkerError(TritoneError):
    """Workers die too often."""


def serve(config: GatewayConfig, listener: socket.socket) -> int:
    """Answer until told to stop. Returns the exit status: 1 when answers were cut off. Raises WorkerError."""
    with (
        stop_signals() as stop,
        tempfile.TemporaryDirectory(prefix="metrics-", dir=os.environ.get(VARIABLE)) as metrics_dir,
    ):
        return WorkerPool(config, listener, stop, metrics_dir).serve()


class WorkerPool:
    """As many workers as the configuration says, until told to stop."""

    def __init__(self, config: GatewayConfig, listener: socket.socket, stop: StopSignals, metrics_dir: str) -> None:
        self._config = config
        self._listener = listener
        self._stop = stop
        self._environment = {**os.environ, METRICS_DIR_VARIABLE: metrics_dir}
        self._policy = RestartPolicy()
        self._started_s = time.monotonic()
        self._workers: list[subprocess.Popen[bytes]] = []

    def serve(self) -> int:
        """Keep the workers alive, and let them drain in the end."""
        try:
            self._fill_up()
            while not self._stop.wait(POLL_S):
                self._bury_dead()
                self._fill_up()
            return self._drain()
        finally:
            for worker in self._workers:
                worker.kill()
                worker.wait()

    def _fill_up(self) -> None:
        while len(self._workers) < self._config.workers and not self._stop.is_requested:
            self._workers.append(start(self._config, self._environment, self._listener))

    def _bury_dead(self) -> None:
        for worker in [worker for worker in self._workers if worker.poll() is not None]:
            self._workers.remove(worker)
            mark_process_dead(worker.pid, self._environment[METRICS_DIR_VARIABLE])  # type: ignore[no-untyped-call]
            delay_s = self._policy.delay_s(self._started_s, time.monotonic())
            if delay_s is None:
                raise WorkerError(f"workers of the gateway died {MOST_RESTARTS + 1} times within {WINDOW_S:.0f} s")
            logger.error("a worker of the gateway ended with status %d; started again", worker.returncode)
            self._stop.wait(delay_s)

    def _drain(self) -> int:
        for worker in self._workers:
            worker.terminate()
        ends_s = time.monotonic() + self._config.drain_timeout_s + _GRACE_S
        while time.monotonic() < ends_s and not self._stop.is_forced:
            if all(worker.poll() is not None for worker in self._workers):
                break
            time.sleep(POLL_S)
        return int(any(worker.poll() not in _COMPLETE for worker in self._workers))
