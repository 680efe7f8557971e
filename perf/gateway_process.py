"""A gateway of its own in front of a benchmark's Triton, on a free port. Runs on the load host."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from perf.child_process import wait_until_answers
from perf.server import HOST, RunningServer, free_ports
from tritone.errors import TritoneError
from tritone.gateway.process import start
from tritone.gateway.settings import GatewayConfig

READY_TIMEOUT_S = 60.0
KIB_PER_MIB = 1024

_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


class RunningGateway(NamedTuple):
    """A gateway that is ready."""

    pid: int
    url: str


@contextmanager
def running_gateway(server: RunningServer, max_concurrent_requests: int) -> Iterator[RunningGateway]:
    """A gateway with one worker, logging to a file as it would in service. Raises TritoneError."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="tritone-perf-") as folder:
        given = {
            "triton": server.http,
            "triton_metrics": server.metrics,
            "port": port,
            "log_file": f"{folder}/requests.log",
            "log_level": "warning",
            "max_concurrent_requests": max_concurrent_requests,
        }
        process = start(GatewayConfig.model_validate(given), dict(os.environ))
        try:
            url = f"http://{HOST}:{port}"
            wait_until_answers(f"{url}/health/ready", process, "the gateway", READY_TIMEOUT_S)
            yield RunningGateway(process.pid, url)
        finally:
            process.kill()
            process.wait()


def peak_rss_mib(pid: int) -> float:
    """The most memory a process has had resident, as the kernel tells it."""
    match = _PEAK.search(Path(f"/proc/{pid}/status").read_text("ascii"))
    if not match:
        raise TritoneError(f"the kernel does not tell the peak memory of process {pid}")
    return int(match[1]) / KIB_PER_MIB
