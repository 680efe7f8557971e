"""What is said of the machine and the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from perf.environment import cpu_model, one_line

ENVIRONMENT = {"cpu": "A CPU", "cores": 2, "triton": "2.51.0", "python": "3.11.7", "seed": 1}


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
