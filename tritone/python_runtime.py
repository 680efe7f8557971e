"""What the embedded Triton asks of this machine and this Python. Runs in our process, changes nothing.

Triton's Python stub embeds an interpreter: it links libpython3.X.so.1.0 and must find the very build that runs us.
"""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from pathlib import Path

from tritone.errors import ProvisionError

PYTHON_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
OLDEST_GLIBC = (2, 35)
CONTAINER_ADVICE = "use NVIDIA's Triton container from NGC (24.10 or newer) instead: its tritonserver on PATH is taken"


def check_platform() -> None:
    """Raise ProvisionError where the embedded Triton cannot run: not Linux x86-64, or glibc older than 2.35."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise ProvisionError(
            f"the embedded Triton runs on Linux x86_64 only, this is {sys.platform} {platform.machine()}: "
            + CONTAINER_ADVICE
        )
    glibc = glibc_version()
    if glibc is None or glibc < OLDEST_GLIBC:
        found = "another C library" if glibc is None else f"glibc {glibc[0]}.{glibc[1]}"
        raise ProvisionError(
            f"the embedded Triton needs glibc 2.35 or newer, this system has {found}: use Debian 12, Ubuntu 22.04 or "
            f"newer, or {CONTAINER_ADVICE}"
        )


def glibc_version() -> tuple[int, int] | None:
    """The running glibc as (major, minor); None with another C library (musl) or on another system."""
    try:
        name, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()
        major, minor = version.split(".")[:2]
        return (int(major), int(minor)) if name == "glibc" else None
    except (ValueError, AttributeError, OSError):
        return None


def libpython_dir() -> Path:
    """The folder with the shared libpython of the running interpreter's own build; ProvisionError if there is none."""
    name = _libpython_name()
    for folder in _library_folders():
        if (folder / name).is_file():
            return folder
    looked_in = ", ".join(str(folder) for folder in _library_folders())
    raise ProvisionError(
        f"{name} of {sys.executable} was not found (looked in {looked_in}); Triton's Python backend needs it: "
        + _libpython_advice()
    )


def has_matching_python3() -> bool:
    """Whether `python3` beside the running interpreter is that interpreter: the stub takes the first one on PATH."""
    sibling = Path(sys.executable).parent / "python3"
    return sibling.exists() and sibling.samefile(sys.executable)


def _libpython_name() -> str:
    # A static build names its archive here, yet may come with a shared library beside it (conda).
    configured = str(sysconfig.get_config_var("INSTSONAME") or "")
    return configured if ".so" in configured else f"libpython{PYTHON_VERSION}.so.1.0"


def _library_folders() -> list[Path]:
    base = Path(sys.base_prefix) / "lib"
    configured = sysconfig.get_config_var("LIBDIR")
    multiarch = sysconfig.get_config_var("MULTIARCH")
    folders = [Path(configured)] if configured else []
    folders += [base, base / multiarch] if multiarch else [base]
    return list(dict.fromkeys(folders))


def _libpython_advice() -> str:
    if sys.base_prefix == "/usr":
        return f"install it (Debian, Ubuntu: apt install libpython{PYTHON_VERSION}; Fedora: dnf install python3-libs)"
    if "pyenv" in sys.base_prefix:
        build = f"PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install --force {platform.python_version()}"
        return f"build this Python as a shared library ({build}), then make the virtual environment again"
    return "make the virtual environment with a Python built with --enable-shared, such as your distribution's"
