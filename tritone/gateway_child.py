"""The gateway as a child of the launcher: started beside the server, and started again when it dies.

Runs in the launcher's main thread. A gateway outlives the servers that die: meanwhile it says that it is not ready.
"""

from __future__ import annotations

import http.client
import logging
import os
import signal
import ssl
import subprocess
import time
from collections.abc import Mapping
from contextlib import closing

from tritone.config import Config, ConfigError
from tritone.config_sources import load_gateway
from tritone.errors import TritoneError
from tritone.gateway.process import start
from tritone.gateway.settings import GatewayConfig
from tritone.ports import in_url, reachable
from tritone.restart_policy import MOST_RESTARTS, WINDOW_S, RestartPolicy
from tritone.run_dir import VARIABLE, RunDir, kill_processes
from tritone.stop_signals import StopSignals

logger = logging.getLogger(__name__)

POLL_S = 0.1
START_TIMEOUT_S = 60.0
_CALL_TIMEOUT_S = 2.0
_HAVE_A_PLACE = {"host": "gateway_host", "port": "gateway_port"}


class GatewayError(TritoneError):
    """The gateway does not start, or dies too often."""


class GatewayChild:
    """One gateway process after the other. A restart waits for its time without holding up the launcher."""

    def __init__(self, config: GatewayConfig, run: RunDir) -> None:
        self._config = config
        self._run = run
        self._policy = RestartPolicy()
        self._process: subprocess.Popen[bytes] | None = None
        self._starts_s = 0.0

    def start(self) -> None:
        """Start it; to be called from the main thread."""
        self._run.gateway.mkdir(exist_ok=True)
        self._process = start(self._config, {**os.environ, VARIABLE: str(self._run.gateway)})
        self._starts_s = time.monotonic()

    def wait_until_up(self, stop: StopSignals) -> None:
        """Return when it answers, or when told to stop. Raises GatewayError."""
        while not self._answers() and not stop.wait(POLL_S):
            if self._process and self._process.poll() is not None:
                raise GatewayError(f"the gateway ended with status {self._process.returncode} before it answered")
            if time.monotonic() - self._starts_s > START_TIMEOUT_S:
                raise GatewayError(f"the gateway does not answer after {START_TIMEOUT_S:.0f} s")

    def keep_alive(self) -> None:
        """Start it again if it has died and it is time to. Raises GatewayError when it dies too often."""
        if self._process and self._process.poll() is not None:
            self._bury(self._process.returncode)
        elif self._process is None and time.monotonic() >= self._starts_s:
            self.start()

    def terminate(self) -> None:
        """Tell it to drain and end."""
        if self._process:
            self._process.terminate()

    def has_ended(self) -> bool:
        """Whether it runs no more."""
        return self._process is None or self._process.poll() is not None

    def is_complete(self) -> bool:
        """Whether it has ended by itself, every answer being out; SIGTERM kills it only before it can answer."""
        return self._process is None or self._process.poll() in (0, -signal.SIGTERM)

    def kill(self) -> None:
        """End it and its workers at once."""
        kill_processes(self._run.gateway)
        if self._process:
            self._process.wait()

    def _bury(self, status: int) -> None:
        now_s = time.monotonic()
        delay_s = self._policy.delay_s(self._starts_s, now_s)
        self.kill()
        if delay_s is None:
            raise GatewayError(
                f"the gateway ended with status {status}; not started again after {MOST_RESTARTS} restarts "
                f"within {WINDOW_S:.0f} s"
            )
        logger.error("the gateway ended with status %d and is started again in %g s", status, delay_s)
        self._process, self._starts_s = None, now_s + delay_s

    def _answers(self) -> bool:
        host, port = reachable(self._config.host), self._config.port
        unverified = ssl._create_unverified_context()
        with closing(
            http.client.HTTPSConnection(host, port, timeout=_CALL_TIMEOUT_S, context=unverified)
            if self._config.tls_cert
            else http.client.HTTPConnection(host, port, timeout=_CALL_TIMEOUT_S)
        ) as connection:
            try:
                connection.request("GET", "/health/live")
                return connection.getresponse().status == 200
            except (OSError, http.client.HTTPException):
                return False


def gateway_config(config: Config, environment: Mapping[str, str]) -> GatewayConfig:
    """The gateway's configuration as a part of the launcher's. Raises ConfigError for what the launcher decides."""
    given = load_gateway({}, environment, config.gateway)
    host = in_url(reachable(config.host))
    ours = {
        "triton": f"{host}:{config.http_port}",
        "triton_metrics": f"{host}:{config.metrics_port}",
        "drain_timeout_s": config.drain_timeout,
        "log_format": config.log_format,
        "log_level": config.log_level,
    }
    if taken := [name for name in ours if name in given.model_fields_set]:
        raise ConfigError(f"gateway: {', '.join(taken)}: `tritone serve` decides this for its gateway")
    if elsewhere := [name for name in _HAVE_A_PLACE if name in config.gateway]:
        raise ConfigError("; ".join(f"gateway: {name} is given as {_HAVE_A_PLACE[name]}" for name in elsewhere))
    chosen = {"host": config.gateway_host or config.host, "port": config.gateway_port}
    return GatewayConfig(**{**given.model_dump(exclude_unset=True), **ours, **chosen})
