"""The command line of tritonserver. Runs in the launcher's process."""

from __future__ import annotations

import math
from pathlib import Path

from tritone.config import Config
from tritone.ports import in_url, numeric
from tritone.run_dir import RunDir
from tritone.tritonserver import TritonInstall

POOL_THREADS = 4  # for each stage, as many as postprocess has senders; Triton's own 32 take turns and wake up cold
SHM_BYTES = 4 << 20  # what each stage starts with for its tensors; the region grows when they need more


def server_command(install: TritonInstall, run: RunDir, config: Config, is_gpu_host: bool) -> list[str]:
    """The program and its arguments, to serve the run folder's repository. Raises PortError for an unknown host."""
    address = numeric(config.host)
    http_address = f"ipv6:{address}" if ":" in address else address  # so libevent's HTTP server wants it
    return [
        str(install.binary),
        f"--model-repository={run.repository}",
        f"--backend-directory={install.backends_dir}",
        f"--http-address={http_address}",
        f"--grpc-address={in_url(address)}",
        f"--metrics-address={http_address}",
        f"--http-port={config.http_port}",
        f"--grpc-port={config.grpc_port}",
        f"--metrics-port={config.metrics_port}",
        f"--allow-gpu-metrics={str(is_gpu_host).lower()}",
        f"--backend-config=python,shm-region-prefix-name={run.shm_prefix}",
        f"--backend-config=python,shm-default-byte-size={SHM_BYTES}",
        f"--backend-config=python,thread-pool-size={POOL_THREADS}",
        "--model-control-mode=none",
        "--disable-auto-complete-config",  # our configs are complete, and to complete them each stage is started twice
        "--exit-on-error=false",  # so that it can be asked which model did not load, and why
        f"--exit-timeout-secs={math.ceil(config.drain_timeout)}",
    ]


def has_gpu() -> bool:
    """Whether this machine shows an NVIDIA GPU; /dev/dxg is Windows' for its Linux guests."""
    return any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists()
