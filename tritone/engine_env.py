"""The virtual environment of an engine whose libraries do not go together with Tritone's own. Runs in our process.

Triton starts the engine's stage in it (EXECUTION_ENV_PATH of its Python backend); the other stages stay where they are.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tritone.errors import ProvisionError
from tritone.python_runtime import PYTHON_VERSION
from tritone.tritonserver import TritonInstall

LIBRARIES = {"openvino": ("openvino_genai",), "transformers": ("torch", "transformers"), "vllm": ("vllm",)}
"""The modules that an engine imports."""

INSTALL = "docs/engines.md says how to install it; `make serve ENGINE={engine}` does"

_TIMEOUT_S = 60
_PROBE = """
import importlib.util, json, sys
from importlib import metadata
print(json.dumps({
    "version": "%d.%d" % sys.version_info[:2],
    "base": sys.base_prefix,
    "numpy": metadata.version("numpy") if importlib.util.find_spec("numpy") else None,
    "missing": [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None],
}))
"""


def check_engine_env(engine: str, environment: Path | None, install: TritonInstall) -> None:
    """Raise ProvisionError where the engine's libraries are missing, or Triton could not run them.

    `environment` is a folder made by `python -m venv`, None for the running Python's own.
    """
    python = environment / "bin" / "python" if environment else Path(sys.executable)
    where = str(environment) if environment else "the environment that Tritone runs in"
    if environment and not (environment / "bin" / "activate").is_file():
        raise ProvisionError(f"--engine-env: {environment} is no virtual environment: there is no bin/activate in it")
    found = _probe(python, LIBRARIES.get(engine, ()))
    if found["missing"]:
        missing = " and ".join(found["missing"])
        raise ProvisionError(
            f"the {engine} engine needs {missing}, not found in {where}: {INSTALL.format(engine=engine)}"
        )
    if not install.is_embedded:
        return
    if found["version"] != PYTHON_VERSION or (environment and not _has_libpython(environment, found)):
        raise ProvisionError(
            f"--engine-env: {environment} is of Python {found['version']} in {found['base']}, and Triton runs that of "
            f"Tritone, {PYTHON_VERSION} in {sys.base_prefix}: make the environment with the same Python"
        )
    if found["numpy"] is None or not found["numpy"].startswith("1."):
        has = f"numpy {found['numpy']}" if found["numpy"] else "no numpy"
        raise ProvisionError(
            f"{where} has {has}, and the embedded Triton's Python backend needs numpy 1: {python} -m pip install "
            "numpy==1.26.4"
        )


def _has_libpython(environment: Path, found: dict[str, Any]) -> bool:
    """Whether Triton's stub, which is linked to one libpython, will have the one of this environment."""
    return found["base"] == sys.base_prefix or any((environment / "lib").glob("libpython3*.so*"))


def _probe(python: Path, modules: tuple[str, ...]) -> dict[str, Any]:
    command = [str(python), "-I", "-c", _PROBE, *modules]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
        found: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise ProvisionError(f"--engine-env: {python} does not run: {error}") from error
    return found
