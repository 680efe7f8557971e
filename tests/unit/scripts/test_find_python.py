"""The search for a Python, with stand-ins on a PATH of its own."""

from __future__ import annotations

from tests.unit.scripts.conftest import Clone

FIND = "scripts/find_python.sh"


def test_prefers_the_newest_python_that_numpy_was_released_for(clone: Clone) -> None:
    for name in ("python3", "python3.10", "python3.12", "python3.13"):
        clone.add_python(name)
    assert clone.run(FIND).stdout == f"{clone.folder}/bin/python3.12\n"


def test_plain_python3_comes_before_python3_13(clone: Clone) -> None:
    clone.add_python("python3.13")
    clone.add_python("python3")
    assert clone.run(FIND).stdout == f"{clone.folder}/bin/python3\n"


def test_a_shim_without_a_python_behind_it_is_no_python(clone: Clone) -> None:
    clone.add_command("python3.12", "echo 'pyenv: python3.12: command not found' >&2; exit 127", folder="shims")
    clone.add_python("python3.12", folder="usr")
    clone.add_python("python3.11", folder="shims")
    assert clone.run(FIND, path=("shims", "usr")).stdout == f"{clone.folder}/usr/python3.12\n"


def test_says_why_each_one_was_refused_and_what_to_do(clone: Clone) -> None:
    clone.add_command("python3.12", "echo 'pyenv: python3.12: command not found' >&2; exit 127")
    clone.add_python("python3")
    (clone.folder / "bin" / "python3.11").symlink_to("python3.12")  # one file is tried and named once
    (clone.notes / "verdict").write_text("Python 3.9, not 3.10 to 3.13\n")
    found = clone.run(FIND)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.splitlines() == [
        "Tritone needs Python 3.10 to 3.13 with venv and a shared libpython. Tried:",
        f"  {clone.folder}/bin/python3.12: pyenv: python3.12: command not found",
        f"  {clone.folder}/bin/python3: Python 3.9, not 3.10 to 3.13",
        "",
        "Debian, Ubuntu:  apt install python3-venv python3-dev g++",
        "Elsewhere:       install Python 3.10, 3.11 or 3.12, or name one: make serve PYTHON=/path/to/python3.12",
    ]


def test_no_python_at_all(clone: Clone) -> None:
    assert "Tried:\n  nothing: there is no python3 on PATH\n" in clone.run(FIND).stderr


def test_a_python_named_by_the_user_is_the_only_one_tried(clone: Clone) -> None:
    clone.add_python("python3.12")
    own = clone.add_python("own python", folder="elsewhere")
    assert clone.run(FIND, PYTHON=str(own)).stdout == f"{own}\n"
    missing = clone.run(FIND, PYTHON="/nowhere/python3")
    assert missing.returncode == 1
    assert "/nowhere/python3: " in missing.stderr
    assert "bin/python3.12" not in missing.stderr
