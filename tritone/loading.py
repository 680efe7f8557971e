"""Waits until a server has loaded its models, or can say why it will not. Runs in the launcher's main thread."""

from __future__ import annotations

import logging
import time

from tritone.server_process import ServerProcess
from tritone.server_state import ServerAddress
from tritone.stop_signals import StopSignals

logger = logging.getLogger(__name__)

POLL_S = 0.1
STILL_LOADING_S = 10.0  # how often the log says so
VERDICT_S = 2.0  # how long Triton may take to say that a stage which has ended could not load


def wait_until_ready(server: ServerProcess, address: ServerAddress, stop: StopSignals, timeout_s: float) -> str:
    """Why the server will not be ready, as a sentence; "" when it is, or when told to stop."""
    watch = _LoadWatch(server, timeout_s)
    while not stop.wait(POLL_S):
        server.look_for_stages()
        is_ready = address.is_ready()
        if is_ready:
            return ""
        refusal = "" if is_ready is None else _refusal(server, address)
        if problem := refusal or watch.problem():
            return problem
    return ""


class _LoadWatch:
    """Notices deaths and slowness while the models are being loaded."""

    def __init__(self, server: ServerProcess, timeout_s: float) -> None:
        self._server = server
        self._timeout_s = timeout_s
        self._started_s = self._told_s = self._all_alive_s = time.monotonic()

    def problem(self) -> str:
        """What has gone wrong, "" if nothing has."""
        now_s = time.monotonic()
        # a stage that could not load ends too, but then Triton gives the reason when all others have been loaded
        if set(self._server.dead_stages()) <= self._server.output.failed:
            self._all_alive_s = now_s
        if self._server.has_ended() or now_s - self._all_alive_s > VERDICT_S:
            return f"{self._server.death()} while loading{_last_error(self._server)}"
        loading = ", ".join(sorted(self._server.output.loading)) or "the models"
        if now_s - self._started_s > self._timeout_s:
            return (
                f"{loading} took longer than {self._timeout_s:g} s to load: look into the log, or give --ready-timeout"
            )
        if now_s - self._told_s > STILL_LOADING_S:
            self._told_s = now_s
            logger.info("still loading %s (%.0f s)", loading, now_s - self._started_s)
        return ""


def _refusal(server: ServerProcess, address: ServerAddress) -> str:
    """Which models the server could not load, and why."""
    failures = address.failures()
    reasons = [f"{model} did not load: {reason}" for model, reason in failures.items() if reason]
    if reasons or not failures:
        return "; ".join(reasons)
    return f"{', '.join(failures)} did not load{_last_error(server)}"


def _last_error(server: ServerProcess) -> str:
    server.output.settle()
    errors = server.output.last_errors
    return f": {errors[-1]}" if errors else ""
