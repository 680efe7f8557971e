"""A Triton of its own for each run of a benchmark, on free ports, started as `tritone serve` does it.

Runs on the load host, in the benchmark's main thread. Nothing watches the server: if it dies the run fails.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from ensemble_repo.assemble import assemble
from perf.child_process import wait_until_gone
from tritone.config import Config
from tritone.loading import wait_until_ready
from tritone.run_dir import VARIABLE, run_dir
from tritone.served_model import ServedModel
from tritone.server_command import has_gpu, server_command
from tritone.server_process import ServerError, ServerProcess
from tritone.server_state import ServerAddress
from tritone.stop_signals import StopSignals
from tritone.tritonserver import find_tritonserver, server_environment

HOST = "127.0.0.1"
READY_TIMEOUT_S = 900.0  # vLLM compiles the model when it is first loaded
UNLOAD_TIMEOUT_S = 20.0


class RunningServer(NamedTuple):
    """A server that is ready: its process and its addresses, HOST:PORT. `url` is that of gRPC."""

    pid: int
    url: str
    http: str
    metrics: str


def write_repository(model: ServedModel, target: Path) -> None:
    """Assemble a model's repository, for `running_server` with the first argument filled in."""
    assemble(target, model.name, model.tokenizer_dir, model.settings)


@contextmanager
def running_server(write_repository: Callable[[Path], None]) -> Iterator[RunningServer]:
    """A server of the repository that `write_repository` puts into a folder that is not there yet.

    Raises TritoneError when it does not become ready. At the end every process and file of it is gone.
    """
    install = find_tritonserver()
    is_gpu_host = has_gpu()
    http, grpc, metrics = free_ports(3)
    config = Config.model_validate({"host": HOST, "http_port": http, "grpc_port": grpc, "metrics_port": metrics})
    with run_dir() as run:
        write_repository(run.repository)
        environment = {**server_environment(install), VARIABLE: str(run.path)}
        server = ServerProcess(server_command(install, run, config, is_gpu_host), environment, is_gpu_host)
        try:
            if problem := wait_until_ready(server, ServerAddress(HOST, http, metrics), StopSignals(), READY_TIMEOUT_S):
                raise ServerError(problem)
            yield RunningServer(server.pid, f"{HOST}:{grpc}", f"{HOST}:{http}", f"{HOST}:{metrics}")
        finally:
            _unload(server)
            server.kill()


def _unload(server: ServerProcess) -> None:
    """Let an engine with processes of its own end them itself: killed, they would leave memory in /dev/shm behind."""
    children: list[psutil.Process] = []
    for stage in server.stages.values():
        with suppress(psutil.Error):  # it has died
            children += stage.process.children(recursive=True)
    if children:
        server.terminate()
        wait_until_gone(children, UNLOAD_TIMEOUT_S)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return [found.getsockname()[1] for found in sockets]
