"""A gateway on its own that is told to stop twice: it ends now, whatever it is still busy with."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psutil
import pytest

from .gateway import Gateway, begin, start
from .serving import HOST, Server, serve, wait_until

pytestmark = pytest.mark.service

Process = subprocess.Popen[bytes]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, toy_model: Path) -> Iterator[Server]:
    options = ("--no-gateway", "--set", "tokens_per_second=50", "--set", "heartbeat_s=0.2")
    with serve(tmp_path_factory.mktemp("elsewhere"), toy_model, *options) as running:
        yield running


@contextmanager
def draining(folder: Path, server: Server, *options: str) -> Iterator[tuple[Gateway, Process, list[socket.socket]]]:
    """A gateway that was told to stop and waits for a stream and for a whole answer that come to no end."""
    front, process = start(folder, server, *options)
    with ExitStack() as connections:
        try:
            wait_until(front.is_ready, 30)
            clients = [connections.enter_context(closing(begin(front, stream))) for stream in (True, False)]
            wait_until(lambda: server.run.live_streams() == 2, 5)
            process.terminate()
            wait_until(lambda: not front.is_ready(), 2)
            yield front, process, clients
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_second_signal_leaves_nothing(tmp_path: Path, server: Server, workers: str) -> None:
    with draining(tmp_path, server, "--workers", workers) as (front, process, _):
        family = [psutil.Process(front.pid), *psutil.Process(front.pid).children(recursive=True)]
        process.terminate()
        assert process.wait(2) == 1
        assert [left for left in family if left.is_running()] == []
        with socket.create_server((HOST, front.port)):
            pass
        wait_until(lambda: server.run.live_streams() == 0, 3)
    assert [word for word in ("Traceback", "Unclosed", "never", "ERROR") if word in front.log.read_text()] == []


def test_who_is_cut_off_by_a_second_signal_is_told(tmp_path: Path, server: Server) -> None:
    with draining(tmp_path, server) as (_, process, clients):
        process.terminate()
        process.wait(2)
        stream, whole = (read_all(client) for client in clients)
    assert stream.startswith(b"HTTP/1.1 200")
    assert b"[DONE]" not in stream
    assert whole.startswith(b"HTTP/1.1 503")
    assert b"retry-after: 1" in whole
    for received in (stream, whole):
        assert received.count(b'"service_unavailable"') == 1


def read_all(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65536), b""))


def test_a_second_signal_does_not_wait_for_a_server_that_hangs(tmp_path: Path, server: Server) -> None:
    with draining(tmp_path, server) as (front, process, _):
        os.kill(server.server_pid, signal.SIGSTOP)
        try:
            started_s = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 1
            assert time.monotonic() - started_s < 2.5
        finally:
            os.kill(server.server_pid, signal.SIGCONT)
        assert "Unclosed" not in front.log.read_text()
    wait_until(lambda: server.run.live_streams() == 0, 5)
