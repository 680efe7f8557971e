"""Starts `tritone serve` for a test and sees to it that nothing is left of it afterwards."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tritone.run_dir import VARIABLE, RunDir

HOST = "127.0.0.1"
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 45.0


@dataclass(frozen=True)
class Server:
    """A launcher that was started. `log` has its stderr, `out` its stdout; `runtime_dir` holds its run folder."""

    process: subprocess.Popen[bytes]
    http_port: int
    grpc_port: int
    metrics_port: int
    gateway_port: int
    log: Path
    out: Path
    runtime_dir: Path

    @property
    def http(self) -> str:
        return f"{HOST}:{self.http_port}"

    @property
    def grpc(self) -> str:
        return f"{HOST}:{self.grpc_port}"

    @property
    def metrics(self) -> str:
        return f"{HOST}:{self.metrics_port}"

    @property
    def gateway(self) -> str:
        return f"{HOST}:{self.gateway_port}"

    @property
    def run(self) -> RunDir:
        (path,) = (self.runtime_dir / "tritone").glob(f"{self.process.pid}-*")
        return RunDir(path)

    @property
    def server_pid(self) -> int:
        """The process id of tritonserver."""
        state = json.loads((self.run.path / "state.json").read_text())
        return int(state["server"]["pid"])

    def stage_pid(self, stage: str) -> int:
        """The process id of a stage: preprocess, engine or postprocess."""
        children = psutil.Process(self.server_pid).children()
        (pid,) = (child.pid for child in children if f"_{stage}/1/model.py" in " ".join(child.cmdline()))
        return pid

    def is_ready(self) -> bool:
        with closing(http.client.HTTPConnection(HOST, self.http_port, timeout=5)) as connection:
            try:
                connection.request("GET", "/v2/health/ready")
                return connection.getresponse().status == 200
            except OSError:
                return False

    def wait_until_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        wait_until(lambda: b" is ready" in self.log.read_bytes() or self.process.poll() is not None, timeout_s)
        assert self.process.poll() is None, self.log.read_text()

    def stop(self) -> int:
        """Ask it to stop; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_TIMEOUT_S)


@contextmanager
def serve(
    folder: Path,
    model: Path | None,
    *options: str,
    engine: str = "scripted",
    variables: Mapping[str, str] | None = None,
    ready_timeout_s: float = READY_TIMEOUT_S,
) -> Iterator[Server]:
    """A server that is ready, on free ports; at the end it is stopped, and everything of it must be gone."""
    with launched(folder, model, *options, engine=engine, variables=variables) as server:
        server.wait_until_ready(ready_timeout_s)
        yield server
        if server.process.poll() is None:
            assert server.stop() == 0, server.log.read_text()
        assert_gone(server)


@contextmanager
def launched(
    folder: Path,
    model: Path | None,
    *options: str,
    engine: str = "scripted",
    variables: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """A launcher that was just started; `folder` takes its log and its run folder. At the end it is killed."""
    ports = free_ports(4)
    names = ("--http-port", "--grpc-port", "--metrics-port", "--gateway-port")
    given = [str(model)] if model else []
    chosen = [text for name, port in zip(names, ports, strict=True) for text in (name, str(port))]
    command = [sys.executable, "-m", "tritone", "serve", *given, "--engine", engine, *chosen, *options]
    folder.mkdir(parents=True, exist_ok=True)
    log, out = folder / "stderr.txt", folder / "stdout.txt"
    with log.open("wb") as stderr, out.open("wb") as stdout:
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder), **(variables or {})}
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)
    server = Server(process, *ports, log, out, folder)
    try:
        yield server
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        for left in processes_of(folder):
            left.kill()
        for entry in shared_memory(process.pid):
            entry.unlink()


def assert_gone(server: Server) -> None:
    """No process, port, run folder or shared memory of an ended launcher is left."""
    assert [process.cmdline() for process in processes_of(server.runtime_dir)] == []
    for port in (server.http_port, server.grpc_port, server.metrics_port, server.gateway_port):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
    assert list((server.runtime_dir / "tritone").iterdir()) == []
    assert shared_memory(server.process.pid) == []


def processes_of(folder: Path) -> list[psutil.Process]:
    """The server, stage and gateway processes whose run folder is below `folder`."""
    found = []
    for process in psutil.process_iter():
        try:
            is_alive = process.status() != psutil.STATUS_ZOMBIE  # nobody need reap what a killed launcher leaves
            if is_alive and process.environ().get(VARIABLE, "").startswith(f"{folder}/"):
                found.append(process)
        except psutil.Error:
            continue
    return found


def shared_memory(launcher: int) -> list[Path]:
    """The shared memory of a launcher's servers."""
    return list(Path("/dev/shm").glob(f"tritone-{launcher}-*"))


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on now."""
    probes = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def wait_until(condition: Callable[[], Any], timeout_s: float) -> None:
    """Wait for a condition; AssertionError when it does not come true in time."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.05)


def generate(server: Server, model: str, **inputs: Any) -> dict[str, Any]:
    """One answer by HTTP, whole."""
    events = list(generate_stream(server, model, stream=False, **inputs))
    return events[-1]


def generate_stream(server: Server, model: str, **inputs: Any) -> Iterator[dict[str, Any]]:
    """The events of an answer by HTTP, as they come; ConnectionError if it breaks off."""
    with closing(http.client.HTTPConnection(HOST, server.http_port, timeout=30)) as connection:
        connection.request("POST", f"/v2/models/{model}/generate_stream", json.dumps(inputs))
        event: dict[str, Any] = {}
        with connection.getresponse() as response:
            for line in response:
                if line.startswith(b"data: "):
                    yield (event := json.loads(line.removeprefix(b"data: ")))
        if not (event.get("finish_reason") or "error" in event):
            raise ConnectionError("the answer broke off")  # http.client calls the end of the connection an end
