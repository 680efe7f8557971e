"""Looks at this machine and says what Tritone found and what to do about it. Runs in our process, fetches nothing."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from tritone.cache import cache_dir
from tritone.errors import TritoneError
from tritone.perf_analyzer import installed_perf_analyzer
from tritone.ports import PortError, check_ports
from tritone.python_runtime import (
    check_platform,
    glibc_version,
    has_matching_python3,
    libpython_dir,
)
from tritone.tritonserver import cached_tritonserver, tritonserver_on_path

Status = Literal["ok", "warn", "fail"]

PORTS = {"HTTP port": 8000, "gRPC port": 8001, "metrics port": 8002, "gateway port": 9000}

_NEEDED_BYTES = 1_000_000_000  # wheels and what is unpacked from them, with room for one more model
_NVIDIA_SMI_TIMEOUT_S = 10


@dataclass(frozen=True)
class Finding:
    """One thing looked at: `warn` means it works with less, `fail` that serving will not work. Advice may be empty."""

    name: str
    status: Status
    found: str
    advice: str = ""


def diagnose() -> list[Finding]:
    """Look at everything Tritone depends on. Never raises for what it finds; never fetches anything."""
    return [_examined(name, look) for name, look in _CHECKS.items()]


_Verdict = tuple[Status, str, str]


def _examined(name: str, look: Callable[[], _Verdict]) -> Finding:
    try:
        return Finding(name, *look())
    except TritoneError as error:
        return Finding(name, "fail", "not usable", str(error))


def _python() -> _Verdict:
    found = f"{sys.version.split()[0]} at {sys.executable}"
    if not (3, 10) <= sys.version_info[:2] <= (3, 13):
        return "fail", found, "Tritone needs Python 3.10 to 3.13"
    if not has_matching_python3():
        return "warn", f"{found}, but no matching python3 beside it", "run Tritone from a virtual environment"
    return "ok", found, ""


def _libpython() -> _Verdict:
    return "ok", str(libpython_dir()), ""


def _numpy() -> _Verdict:
    version = _version_of("numpy")
    if version is None:
        return "fail", "not installed", "pip install numpy==1.26.4"
    if version.startswith("1.") or tritonserver_on_path():
        return "ok", version, ""
    return "fail", version, "the embedded Triton's Python backend dies with numpy 2: pip install numpy==1.26.4"


def _glibc() -> _Verdict:
    version = glibc_version()
    found = "none" if version is None else f"{version[0]}.{version[1]}"
    if tritonserver_on_path() is None:
        check_platform()
    return "ok", found, ""


def _tritonserver() -> _Verdict:
    if on_path := tritonserver_on_path():
        return "ok", f"{on_path.binary} on PATH, version {on_path.version}", ""
    check_platform()
    if embedded := cached_tritonserver():
        return "ok", f"embedded {embedded.version} in the cache", ""
    return "warn", "none yet", "the first `tritone serve` fetches the embedded one (55 MB) with pip"


def _gpu() -> _Verdict:
    command = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=_NVIDIA_SMI_TIMEOUT_S)
    except FileNotFoundError:
        return "ok", "none (no nvidia-smi)", "the OpenVINO engine serves on the CPU"
    except (OSError, subprocess.TimeoutExpired) as error:
        return "warn", f"nvidia-smi does not run: {error}", "check the NVIDIA driver"
    if run.returncode != 0:
        said = (run.stdout + run.stderr).strip().splitlines() or [f"exit status {run.returncode}"]
        return "warn", f"nvidia-smi failed: {said[-1]}", "check the NVIDIA driver"
    return "ok", "; ".join(run.stdout.strip().splitlines()), ""


def _perf_analyzer() -> _Verdict:
    if found := installed_perf_analyzer():
        return "ok", str(found.binary), ""
    return "warn", "none that starts", "only benchmarks need it; the first one fetches it"


def _openvino() -> _Verdict:
    version = _version_of("openvino-genai")
    if version is None or importlib.util.find_spec("openvino_genai") is None:
        return "warn", "not installed", "needed to serve without a GPU: pip install 'tritone[openvino]'"
    return "ok", version, ""


def _model_cache() -> _Verdict:
    folder = cache_dir()
    if not folder.is_dir():
        return "ok", f"{folder}, empty", "the first `tritone serve` fetches the bundled model (93 MB) with pip"
    made = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith(".") and entry.name != "locks")
    return "ok", f"{folder}: {', '.join(made) or 'empty'}", ""


def _disk() -> _Verdict:
    folder = _existing(cache_dir())
    free = shutil.disk_usage(folder).free
    found = f"{free / 1e9:.1f} GB free at {folder}"
    if free >= _NEEDED_BYTES:
        return "ok", found, ""
    return "warn", found, "a first start needs 1 GB: free some space, or set TRITONE_CACHE to another disk"


def _ports() -> _Verdict:
    problems = []
    for option, port in PORTS.items():
        try:
            check_ports({option: ("0.0.0.0", port)})
        except PortError as error:
            problems.append(str(error))
    if problems:
        return "warn", "; ".join(problems), ""
    return "ok", f"{', '.join(map(str, PORTS.values()))} free", ""


def _version_of(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _existing(folder: Path) -> Path:
    return next(parent for parent in (folder, *folder.parents) if parent.is_dir())


_CHECKS: dict[str, Callable[[], _Verdict]] = {
    "Python": _python,
    "libpython": _libpython,
    "numpy": _numpy,
    "glibc": _glibc,
    "tritonserver": _tritonserver,
    "GPU": _gpu,
    "OpenVINO GenAI": _openvino,
    "perf_analyzer": _perf_analyzer,
    "cache": _model_cache,
    "disk": _disk,
    "ports": _ports,
}
