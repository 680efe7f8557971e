from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tritone.engine_env import LIBRARIES, check_engine_env
from tritone.errors import ProvisionError
from tritone.python_runtime import PYTHON_VERSION
from tritone.tritonserver import TritonInstall

EMBEDDED = TritonInstall(Path("tritonserver"), Path("backends"), (), is_embedded=True, version="2.51.0")
FOUND = {"version": PYTHON_VERSION, "base": sys.base_prefix, "numpy": "1.26.4", "missing": []}


def environment(folder: Path, **found: Any) -> Path:
    """One whose Python answers the probe with what it is said to have found."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "activate").touch()
    python = folder / "bin" / "python"
    python.write_text(f"#!/bin/sh\necho '{json.dumps({**FOUND, **found})}'\n")
    python.chmod(0o755)
    return folder


def test_what_has_everything_is_taken(tmp_path: Path) -> None:
    check_engine_env("vllm", environment(tmp_path / "env"), EMBEDDED)


def test_the_running_python_is_asked_for_its_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    check_engine_env("scripted", None, EMBEDDED)
    monkeypatch.setitem(LIBRARIES, "vllm", ("json", "no_such_module"))
    needs = r"the vllm engine needs no_such_module, not found in the environment that Tritone runs in: docs/engines\.md"
    with pytest.raises(ProvisionError, match=needs):
        check_engine_env("vllm", None, EMBEDDED)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"missing": ["torch", "transformers"]}, r"needs torch and transformers, not found in .*env: docs/engines\.md"),
        ({"version": "3.99"}, r"env is of Python 3\.99 in .* make the environment with the same Python"),
        ({"base": "/another"}, r"in /another, and Triton runs that of Tritone"),
        ({"numpy": "2.1.0"}, r"has numpy 2\.1\.0, .*bin/python -m pip install numpy==1\.26\.4"),
        ({"numpy": None}, r"has no numpy"),
    ],
)
def test_what_triton_could_not_run_is_refused_with_a_remedy(
    tmp_path: Path, found: dict[str, Any], message: str
) -> None:
    with pytest.raises(ProvisionError, match=message):
        check_engine_env("transformers", environment(tmp_path / "env", **found), EMBEDDED)


def test_an_environment_with_a_libpython_of_its_own_is_taken(tmp_path: Path) -> None:
    folder = environment(tmp_path / "env", base="/another")
    (folder / "lib").mkdir()
    (folder / "lib" / f"libpython{PYTHON_VERSION}.so.1.0").touch()
    check_engine_env("vllm", folder, EMBEDDED)


def test_a_tritonserver_of_a_container_knows_its_python(tmp_path: Path) -> None:
    container = TritonInstall(Path("tritonserver"), Path("backends"), (), is_embedded=False, version="2.60.0")
    check_engine_env("vllm", environment(tmp_path / "env", numpy="2.1.0", version="3.99"), container)


def test_what_is_no_environment_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ProvisionError, match=r"--engine-env: .*nowhere is no virtual environment"):
        check_engine_env("vllm", tmp_path / "nowhere", EMBEDDED)
    broken = environment(tmp_path / "env")
    (broken / "bin" / "python").write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(ProvisionError, match=r"--engine-env: .*bin/python does not run: .*exit status 3"):
        check_engine_env("vllm", broken, EMBEDDED)
