"""A clone of the scripts, and a stand-in for Python that notes what it is asked to do."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

# Answers what find_python.sh and venv.sh ask of an interpreter. `verdict`, when there, refuses it; `broken` fails pip.
STAND_IN = """#!/bin/sh
notes={folder}
case "$*" in
    "-m scripts.check_python") [ ! -f "$notes/verdict" ] || {{ cat "$notes/verdict" >&2; exit 1; }} ;;
    "-c import sys; print(sys.executable)") echo "$0" ;;
    -VV) echo "{name}" ;;
    "-m venv .venv"*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && echo "${{3#.}}" >> "$notes/calls" ;;
    "-m scripts.vllm_requirements") echo requests ;;
    "-m scripts.numpy_wheel") [ ! -f "$notes/wheel" ] || cat "$notes/wheel" ;;
    "-m pip install "*) echo "pip ${{*##*--no-compile }}" >> "$notes/calls"; [ ! -f "$notes/broken" ] ;;
    "-c " | "-m compileall "*) ;;
    *) echo "unexpected: $*" >&2; exit 9 ;;
esac
"""


@dataclass(frozen=True)
class Clone:
    """A folder with the scripts, and what its stand-ins for Python noted and are told, in `notes`."""

    folder: Path
    notes: Path

    def add_python(self, name: str, folder: str = "bin") -> Path:
        """Put a stand-in called `name` into the clone's `folder`."""
        python = self.folder / folder / name
        python.parent.mkdir(exist_ok=True)
        python.write_text(STAND_IN.format(folder=self.notes, name=name))
        python.chmod(0o755)
        return python

    def add_command(self, name: str, text: str, folder: str = "bin") -> None:
        """Put a shell script called `name` into the clone's `folder`."""
        command = self.folder / folder / name
        command.parent.mkdir(exist_ok=True)
        command.write_text(f"#!/bin/sh\n{text}\n")
        command.chmod(0o755)

    def run(
        self, *arguments: str, path: tuple[str, ...] = ("bin",), **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a script with the clone's `path` folders and the system's tools on PATH, but none of its Pythons."""
        folders = [*(str(self.folder / name) for name in path), str(self.folder / "tools")]
        environment = {"PATH": os.pathsep.join(folders), **variables}
        return subprocess.run(arguments, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)

    def calls(self) -> list[str]:
        """What was done since the last time this was asked."""
        noted = self.notes / "calls"
        lines = noted.read_text().splitlines() if noted.exists() else []
        noted.unlink(missing_ok=True)
        return lines


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    """A clone without any Python."""
    folder, notes = tmp_path / "clone", tmp_path / "notes"
    notes.mkdir()
    shutil.copytree(ROOT / "scripts", folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "tools").mkdir()
    for tool in ("sh", "dirname", "cat", "head", "readlink", "cksum", "flock", "ls", "rm", "mkdir", "cp"):
        found = shutil.which(tool)
        assert found is not None
        (folder / "tools" / tool).symlink_to(found)
    return Clone(folder, notes)
