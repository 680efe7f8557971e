"""Finds a perf_analyzer that starts on this machine. Runs in our process, for the benchmarks.

The perf-analyzer package needs a newer glibc than Debian 12 has. The older binary in tritonclient's manylinux wheel
wants two libraries that no Python package installs, but which lie under hashed names among the embedded Triton's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tritone.cache import artifact, cached
from tritone.errors import ProvisionError
from tritone.progress import Progress, show_progress
from tritone.tritonserver import LIBRARIES, embedded_tree
from tritone.wheels import TRITONCLIENT, extract, wheel_artifact

_BINARY = "perf_analyzer"
_WHEEL_ARTIFACT = f"perf-analyzer-{TRITONCLIENT.version}"
_LIBRARIES_ARTIFACT = "perf-analyzer-libraries"
_WANTED = {"libb64.so.0d": "libb64-*.so.0d", "libcudart.so.12": "libcudart-*.so.12*"}
_START_TIMEOUT_S = 30


@dataclass(frozen=True)
class PerfAnalyzer:
    """A perf_analyzer seen starting, and the whole environment to start it with."""

    binary: Path
    environment: Mapping[str, str]


def find_perf_analyzer(progress: Progress = show_progress) -> PerfAnalyzer:
    """A perf_analyzer from PATH or this Python's packages, else from the tritonclient wheel (fetched: up to 70 MB).

    Raises ProvisionError if none starts here.
    """
    return installed_perf_analyzer() or _with_libraries(progress)


def installed_perf_analyzer() -> PerfAnalyzer | None:
    """A perf_analyzer that needs nothing fetched, if one starts: installed, or completed from the cache."""
    for binary in _installed():
        if _failure(binary, os.environ) is None:
            return PerfAnalyzer(binary, dict(os.environ))
    libraries, wheel = cached(_LIBRARIES_ARTIFACT), cached(_WHEEL_ARTIFACT)
    candidates = [*_installed(), *([wheel / _BINARY] if wheel else [])]
    return _first_starting(candidates, libraries) if libraries else None


def _with_libraries(progress: Progress) -> PerfAnalyzer:
    tree = embedded_tree(progress)
    libraries = artifact(_LIBRARIES_ARTIFACT, lambda folder: _copy_libraries(tree / LIBRARIES, folder))
    if found := _first_starting(list(_installed()), libraries):
        return found
    binary = wheel_artifact(_WHEEL_ARTIFACT, TRITONCLIENT, lambda z, to: _unpack(z, to, progress), progress) / _BINARY
    if found := _first_starting([binary], libraries):
        return found
    raise ProvisionError(
        f"no perf_analyzer starts here; the one of {TRITONCLIENT} says: {_failure(binary, _environment(libraries))}"
    )


def _installed() -> Iterator[Path]:
    candidates = [shutil.which(_BINARY), os.path.join(sysconfig.get_path("scripts"), _BINARY), *_packaged()]
    return (Path(path) for path in dict.fromkeys(candidates) if path and os.path.isfile(path))


def _packaged() -> list[str]:
    try:
        files = metadata.distribution("perf-analyzer").files or []
    except metadata.PackageNotFoundError:
        return []
    return [str(file.locate()) for file in files if file.name == _BINARY]


def _first_starting(binaries: list[Path], libraries: Path) -> PerfAnalyzer | None:
    environment = _environment(libraries)
    return next((PerfAnalyzer(path, environment) for path in binaries if _failure(path, environment) is None), None)


def _environment(libraries: Path) -> dict[str, str]:
    searched = [str(libraries), os.environ.get("LD_LIBRARY_PATH", "")]
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(filter(None, searched))}


def _failure(binary: Path, environment: Mapping[str, str]) -> str | None:
    """Why `binary --version` does not run; None if it does."""
    try:
        run = subprocess.run(
            [str(binary), "--version"], env=environment, capture_output=True, text=True, timeout=_START_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if run.returncode == 0 else (run.stderr or run.stdout).strip() or f"exit status {run.returncode}"


def _unpack(archive: zipfile.ZipFile, folder: Path, progress: Progress) -> None:
    name = f"tritonclient-{TRITONCLIENT.version}.data/data/bin/{_BINARY}"
    extract(archive, {name: folder / _BINARY}, progress)
    (folder / _BINARY).chmod(0o755)


def _copy_libraries(source: Path, folder: Path) -> None:
    for name, pattern in _WANTED.items():
        shutil.copy(next(source.glob(pattern)), folder / name)
