from __future__ import annotations

import os
import platform
import sys
import sysconfig
from pathlib import Path

import pytest

from tritone.errors import ProvisionError
from tritone.python_runtime import PYTHON_VERSION, check_platform, glibc_version, has_matching_python3, libpython_dir

LIBPYTHON = f"libpython{PYTHON_VERSION}.so.1.0"


@pytest.mark.parametrize(
    ("reported", "expected"),
    [("glibc 2.36", (2, 36)), ("glibc 2.35.1", (2, 35)), ("musl 1.2", None), (None, None), ("", None)],
)
def test_glibc_version(reported: str | None, expected: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "confstr", lambda name: reported)
    assert glibc_version() == expected


@pytest.mark.parametrize(
    ("system", "machine", "glibc", "complaint"),
    [
        ("darwin", "arm64", None, "runs on Linux x86_64 only, this is darwin arm64: use NVIDIA's Triton container"),
        ("linux", "aarch64", "glibc 2.36", "runs on Linux x86_64 only, this is linux aarch64: use NVIDIA's"),
        ("win32", "AMD64", None, "this is win32 AMD64"),
        ("linux", "x86_64", "glibc 2.31", r"needs glibc 2\.35 or newer, this system has glibc 2\.31: use Debian 12"),
        ("linux", "x86_64", "musl 1", "needs glibc 2.35 or newer, this system has another C library"),
    ],
)
def test_unsupported_platforms_are_told_what_to_use(
    system: str, machine: str, glibc: str | None, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(os, "confstr", lambda name: glibc)
    with pytest.raises(ProvisionError, match=complaint):
        check_platform()


def test_oldest_supported_platform_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.35")
    check_platform()


def _build_settings(monkeypatch: pytest.MonkeyPatch, base: Path, **settings: str | None) -> None:
    monkeypatch.setattr(sys, "base_prefix", str(base))
    monkeypatch.setattr(sysconfig, "get_config_var", settings.get)


@pytest.mark.parametrize("folder", ["configured", "base/lib", "base/lib/x86_64-linux-gnu"])
@pytest.mark.parametrize("soname", [LIBPYTHON, f"libpython{PYTHON_VERSION}.a", None])
def test_libpython_is_found_in_every_usual_place(
    folder: str, soname: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured = str(tmp_path / "configured")
    _build_settings(monkeypatch, tmp_path / "base", LIBDIR=configured, MULTIARCH="x86_64-linux-gnu", INSTSONAME=soname)
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / LIBPYTHON).touch()
    assert libpython_dir() == tmp_path / folder


@pytest.mark.parametrize(
    ("base", "advice"),
    [
        ("/usr", f"apt install libpython{PYTHON_VERSION}"),
        ("/home/me/.pyenv/versions/3.11.7", "PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install"),
        ("/opt/python", "a Python built with --enable-shared"),
    ],
)
def test_missing_libpython_says_what_to_install(base: str, advice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _build_settings(monkeypatch, Path(base), LIBDIR="/nowhere", INSTSONAME="libpython9.9.so.1.0")
    with pytest.raises(ProvisionError, match=rf"libpython9\.9\.so\.1\.0 of .* \(looked in /nowhere, .*{advice}"):
        libpython_dir()


def test_python3_beside_the_interpreter_must_be_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable, other = tmp_path / "python3.11", tmp_path / "other"
    executable.touch()
    other.touch()
    monkeypatch.setattr(sys, "executable", str(executable))
    assert not has_matching_python3()
    (tmp_path / "python3").symlink_to(other)
    assert not has_matching_python3()
    (tmp_path / "python3").unlink()
    (tmp_path / "python3").symlink_to(executable)
    assert has_matching_python3()
