"""Exits with success, or with the reason why this Python cannot run Tritone. Run by find_python.sh.

Runs before anything is installed and on any Python 3, so: standard library, and nothing newer than Python 3.6 up here.
"""

import sys
from importlib.util import find_spec


def obstacle() -> str:
    """One line on what is missing and how to get it; empty if nothing is."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if not (3, 10) <= sys.version_info[:2] <= (3, 13):
        return f"Python {version}, not 3.10 to 3.13"
    if find_spec("venv") is None or find_spec("ensurepip") is None:
        return f"Python {version} without venv (Debian, Ubuntu: apt install python{version}-venv)"
    return _libpython_obstacle() or _numpy_obstacle()


def _libpython_obstacle() -> str:
    from tritone.errors import ProvisionError
    from tritone.python_runtime import libpython_dir

    try:
        libpython_dir()  # of this very build: Triton's Python backend loads it
    except ProvisionError as error:
        return str(error)
    return ""


def _numpy_obstacle() -> str:
    from scripts.numpy_wheel import build_obstacle, built_wheel, is_released

    return "" if is_released() or built_wheel() else build_obstacle()


if __name__ == "__main__":
    sys.exit(obstacle() or 0)
