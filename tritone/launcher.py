"""`tritone serve`: from a configuration to a server that is watched until it is told to stop. Runs in our process."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path

import click
import psutil

from ensemble_repo.assemble import assemble
from tritone.config import Config, ConfigError
from tritone.engine_env import check_engine_env
from tritone.gateway.server import check as check_gateway
from tritone.gateway.server import url
from tritone.gateway.settings import GatewayConfig
from tritone.gateway_child import GatewayChild, gateway_config
from tritone.log_format import set_up_logging
from tritone.log_progress import LogProgress
from tritone.ports import check_ports
from tritone.progress import show_progress
from tritone.ready_message import ready_message
from tritone.run_dir import VARIABLE, RunDir, run_dir
from tritone.served_model import ServedModel, check_settings, find_model
from tritone.server_command import has_gpu, server_command
from tritone.server_process import ServerProcess
from tritone.stop_signals import stop_signals
from tritone.supervisor import Supervisor
from tritone.tritonserver import TritonInstall, find_tritonserver, server_environment

logger = logging.getLogger(__name__)


def serve(config: Config) -> int:
    """Serve until told to stop. Returns the exit status: 1 when streams were cut off.

    Raises TritoneError or SettingError for what cannot be served.
    """
    set_up_logging(config.log_format, config.log_level)
    with stop_signals() as stop, run_dir() as run:
        try:
            with stop.interrupting():
                launcher = prepare(config, run)
        except KeyboardInterrupt:
            return 0
        gateway = GatewayChild(launcher.gateway, run) if launcher.gateway else None
        are_streams_done = Supervisor(config, run, stop, launcher.launch, launcher.announce, gateway).serve()
    logger.info("stopped")
    return 0 if are_streams_done else 1


def prepare(config: Config, run: RunDir) -> Launcher:
    """Check what can be checked, fetch what is missing, assemble the model repository."""
    check_settings(config)
    if "run_dir" in config.settings:
        raise ConfigError("settings: run_dir is the launcher's to choose")
    gateway = None if config.no_gateway else gateway_config(config, os.environ)
    if gateway:
        check_gateway(gateway)
    check_ports(config.addresses)
    progress = show_progress if config.log_format == "text" else LogProgress()
    install = find_tritonserver(progress)
    check_engine_env(config.engine, Path(config.engine_env).expanduser() if config.engine_env else None, install)
    model = find_model(config, progress)
    assemble(run.repository, model.name, model.tokenizer_dir, model.settings)
    return Launcher(config, run, model, install, gateway)


class Launcher:
    """Starts the server of an assembled repository, as often as it must be. `gateway` is what goes with it."""

    def __init__(
        self, config: Config, run: RunDir, model: ServedModel, install: TritonInstall, gateway: GatewayConfig | None
    ) -> None:
        self.gateway = gateway
        self._config = config
        self._run = run
        self._model = model
        self._is_gpu_host = has_gpu()
        self._command = server_command(install, run, config, self._is_gpu_host)
        self._environment = {**server_environment(install), VARIABLE: str(run.path)}

    def launch(self) -> ServerProcess:
        """Start a server."""
        server = ServerProcess(self._command, self._environment, self._is_gpu_host)
        self._run.write_state(
            {
                "launcher": _identity(os.getpid()),
                "server": _identity(server.pid),
                "shm_prefix": self._run.shm_prefix,
                "model": self._model.name,
                **self._config.ports,
            }
        )
        return server

    def announce(self, is_first: bool) -> None:
        """Tell the user that the server is ready; how to talk to it the first time only."""
        logger.info("%s is ready", self._model.name)
        if is_first and self._config.log_format == "text":
            with suppress(OSError):  # nobody need be reading
                click.echo(ready_message(self._config, self._model.name, url(self.gateway) if self.gateway else None))


def _identity(pid: int) -> dict[str, float]:
    """A process id is used again; with the time of its creation it names one process."""
    return {"pid": pid, "created_s": psutil.Process(pid).create_time()}
