"""Starts a gateway, or a worker of one, as a process of its own. Runs in the launcher and in a gateway itself."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping

from tritone.gateway.settings import GatewayConfig
from tritone.server_process import end_with

METRICS_DIR_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # so prometheus_client learns where the values of all workers lie


def start(
    config: GatewayConfig, environment: Mapping[str, str], listener: socket.socket | None = None
) -> subprocess.Popen[bytes]:
    """A new process that is a worker on `listener`, or without one a whole gateway. It ends when this process does.

    It gets its configuration by its stdin, so that nothing has to be said twice and nothing shows in a process list.
    """
    parent, shared = os.getpid(), [listener.fileno()] if listener else []
    process = subprocess.Popen(
        [sys.executable, "-m", "tritone.gateway", *map(str, shared)],
        env=environment,
        stdin=subprocess.PIPE,
        pass_fds=shared,
        start_new_session=True,  # Ctrl-C in a terminal is for the first process alone
        preexec_fn=lambda: end_with(parent),
    )
    assert process.stdin
    with process.stdin as pipe:
        pipe.write(config.model_dump_json().encode())
    return process
