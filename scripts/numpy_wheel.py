"""Prints the path of a numpy wheel for a Python that numpy's own release has none for, else nothing.

Run by venv.sh with the new virtual environment's Python, which has pip and nothing else. Triton's Python stub predates
numpy 2, and numpy 1.26 was released for Python 3.9 to 3.12 only. Its source builds on 3.13 as it is: once per machine.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tritone.cache import artifact, cached
from tritone.errors import ProvisionError

NEWEST_RELEASED = (3, 12)

_ROOT = Path(__file__).parent.parent
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
# Arrays are small here, only copied and compared: code for every kind of processor would triple the time to build.
_SETUP_ARGUMENTS = (
    "-Dcpu-dispatch=none",
    "-Ddisable-svml=true",
    "-Dallow-noblas=true",
    "-Doptimization=1",
    "-Ddebug=false",
    "-Db_ndebug=true",
)


def is_released() -> bool:
    """Whether pip finds a ready wheel of the pinned numpy for this Python."""
    return sys.version_info[:2] <= NEWEST_RELEASED


def built_wheel() -> Path | None:
    """The wheel in the cache if it has been built already."""
    folder = cached(_artifact_name())
    return next(folder.glob("*.whl")) if folder else None


def build_obstacle() -> str:
    """What a build needs and this machine lacks, in one line with the way to get it; empty if nothing."""
    missing = [name for name in ("cc", "c++") if shutil.which(name) is None]
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        missing.append("Python.h")
    if not missing:
        return ""
    return (
        f"Python {_PYTHON}, for which numpy {_pinned()} has no wheel and must be built, without {', '.join(missing)} "
        f"(Debian, Ubuntu: apt install python{_PYTHON}-dev g++)"
    )


def build() -> Path:
    """The wheel, built now if it is not in the cache; ProvisionError if it could not be."""
    folder = artifact(_artifact_name(), _build)
    return next(folder.glob("*.whl"))


def _build(folder: Path) -> None:
    sys.stderr.write(
        f"numpy {_pinned()} has no wheel for Python {_PYTHON}: building it once, about 3 minutes on two cores\n"
        "(not needed with Python 3.10, 3.11 or 3.12)\n"
    )
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-binary=numpy", "--disable-pip-version-check"]
    command += [f"--config-settings=setup-args={argument}" for argument in _SETUP_ARGUMENTS]
    command += ["--config-settings=build-dir=build"]  # one that stays: configured once, not for each build step
    command += [f"--wheel-dir={folder}", f"numpy=={_pinned()}"]
    if subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr).returncode != 0:
        raise ProvisionError(f"numpy {_pinned()} could not be built for Python {_PYTHON}; pip's reason is above")


def _artifact_name() -> str:
    return f"numpy-{_pinned()}-cpython-{_PYTHON}"


def _pinned() -> str:
    pin = re.search(r'"numpy==([\d.]+)"', (_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert pin is not None, "pyproject.toml pins numpy"
    return pin[1]


if __name__ == "__main__":
    try:
        sys.stdout.write("" if is_released() else str(build()))
    except ProvisionError as error:
        sys.exit(str(error))
