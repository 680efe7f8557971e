"""What a build of numpy needs, and where the built wheel is kept; nothing is built here."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from scripts import check_python, numpy_wheel
from tritone.errors import ProvisionError

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("TRITONE_CACHE", str(folder))
    return folder


@pytest.fixture
def pip_calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """pip is not run but noted, and leaves a wheel in the folder it is given."""
    calls: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        calls.append(command)
        folder = next(word for word in command if word.startswith("--wheel-dir=")).removeprefix("--wheel-dir=")
        Path(folder, "numpy-1.26.4-any.whl").touch()
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    return calls


@pytest.mark.usefixtures("pip_calls")
def test_a_wheel_is_built_once(cache: Path, pip_calls: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert numpy_wheel.built_wheel() is None
    wheel = numpy_wheel.build()
    assert wheel == cache / f"numpy-1.26.4-cpython-{VERSION}" / "numpy-1.26.4-any.whl"
    assert numpy_wheel.build() == numpy_wheel.built_wheel() == wheel
    assert len(pip_calls) == 1
    assert pip_calls[0][-1] == "numpy==1.26.4"
    assert f"numpy 1.26.4 has no wheel for Python {VERSION}: building it once, about" in capsys.readouterr().err


def test_a_build_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 1))
    with pytest.raises(ProvisionError, match=f"numpy 1.26.4 could not be built for Python {VERSION}"):
        numpy_wheel.build()
    assert numpy_wheel.built_wheel() is None


def test_what_a_build_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "c++" else f"/usr/bin/{name}")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: f"/nowhere/{name}")
    assert numpy_wheel.build_obstacle() == (
        f"Python {VERSION}, for which numpy 1.26.4 has no wheel and must be built, without c++, Python.h "
        f"(Debian, Ubuntu: apt install python{VERSION}-dev g++)"
    )


def test_this_python_runs_tritone() -> None:
    assert check_python.obstacle() in ("", numpy_wheel.build_obstacle())


@pytest.mark.parametrize("version", [(3, 9), (3, 14)])
def test_a_python_outside_the_range_is_refused(version: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    assert check_python.obstacle() == f"Python {version[0]}.{version[1]}, not 3.10 to 3.13"


def test_a_python_without_ensurepip_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_python, "find_spec", lambda name: None if name == "ensurepip" else object())
    assert (
        check_python.obstacle() == f"Python {VERSION} without venv (Debian, Ubuntu: apt install python{VERSION}-venv)"
    )
