from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.unit.tritone.conftest import Steps
from tests.unit.tritone.toy_safetensors import HEAD_SIZE, write_toy_folder
from tritone.errors import ModelError, ProvisionError
from tritone.openvino_folder import openvino_folder

# Converts the folder given and stops in the middle, when it has said so.
_CONVERTER = """
import sys, time
from pathlib import Path
from tritone.openvino_folder import openvino_folder
def stop(what, done, total):
    if 0 < done < total:
        print("inside", flush=True)
        time.sleep(60)
openvino_folder(Path(sys.argv[1]), stop)
"""


def _entries(cache: Path) -> list[str]:
    return [entry.name for entry in cache.iterdir() if entry.name != "locks"]


def test_folder_is_converted_once(
    fake_openvino: Callable[[str], None], cache: Path, tmp_path: Path, steps: Steps
) -> None:
    fake_openvino("")
    folder = write_toy_folder(tmp_path / "Toy")
    made = openvino_folder(folder, steps)
    assert made.parent == cache
    assert sorted(file.name for file in made.iterdir()) == ["openvino_model.bin", "openvino_model.xml"]
    assert openvino_folder(folder, steps) == made
    assert (tmp_path / "bin/python.runs").read_text() == "\n"
    assert {what for what, _, _ in steps.seen} == {"Reading the weights of Toy", "Converting the model for OpenVINO"}
    assert all(done <= total for _, done, total in steps.seen)
    last = {what: (done, total) for what, done, total in steps.seen}
    assert all(done == total for done, total in last.values())


def test_converted_model_has_the_frequencies_of_the_config(
    fake_openvino: Callable[[str], None], tmp_path: Path, steps: Steps
) -> None:
    fake_openvino("")
    folder = write_toy_folder(tmp_path / "Toy", rope_scaling={"type": "linear", "factor": 2.0})
    weights = (openvino_folder(folder, steps) / "openvino_model.bin").read_bytes()
    expected = 1000.0 ** (-np.arange(0, HEAD_SIZE, 2) / HEAD_SIZE) / 2
    np.testing.assert_allclose(np.frombuffer(weights[-HEAD_SIZE * 2 :], "<f4"), expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_changed_folder_is_converted_again(
    name: str, fake_openvino: Callable[[str], None], cache: Path, tmp_path: Path, steps: Steps
) -> None:
    fake_openvino("")
    folder = write_toy_folder(tmp_path / "Toy")
    first = openvino_folder(folder, steps)
    os.utime(folder / name, (1, 1))
    assert openvino_folder(folder, steps) != first
    assert len(_entries(cache)) == 2


def test_other_version_of_openvino_converts_again(
    fake_openvino: Callable[[str], None], tmp_path: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_openvino("")
    folder = write_toy_folder(tmp_path / "Toy")
    first = openvino_folder(folder, steps)
    monkeypatch.setattr(metadata, "version", {"openvino-genai": "2099.1"}.__getitem__)
    assert openvino_folder(folder, steps) != first


def test_failure_of_openvino_is_told_and_leaves_nothing(
    fake_openvino: Callable[[str], None], cache: Path, tmp_path: Path, steps: Steps
) -> None:
    fake_openvino('echo Traceback >&2; echo "RuntimeError: no memory" >&2; exit 1')
    with pytest.raises(ProvisionError, match=r"OpenVINO could not convert model\.gguf: RuntimeError: no memory"):
        openvino_folder(write_toy_folder(tmp_path / "Toy"), steps)
    assert _entries(cache) == []


def test_conversion_that_writes_nothing_has_failed(
    fake_openvino: Callable[[str], None], tmp_path: Path, steps: Steps
) -> None:
    fake_openvino("exit 0")
    with pytest.raises(ProvisionError, match=r"OpenVINO could not convert model\.gguf: no reason given"):
        openvino_folder(write_toy_folder(tmp_path / "Toy"), steps)


def test_unsupported_model_leaves_nothing(cache: Path, tmp_path: Path, steps: Steps) -> None:
    with pytest.raises(ModelError, match="is GemmaForCausalLM"):
        openvino_folder(write_toy_folder(tmp_path / "Toy", "GemmaForCausalLM"), steps)
    assert _entries(cache) == []
    assert steps.seen == []


def test_killed_conversion_leaves_nothing_half(
    fake_openvino: Callable[[str], None], cache: Path, tmp_path: Path, steps: Steps
) -> None:
    folder = write_toy_folder(tmp_path / "Toy")
    command = [sys.executable, "-c", _CONVERTER, str(folder)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, text=True) as converter:
        assert converter.stdout is not None
        assert converter.stdout.readline() == "inside\n"
        os.kill(converter.pid, signal.SIGKILL)
    (half,) = _entries(cache)
    assert half.startswith(".openvino-")
    fake_openvino("")
    made = openvino_folder(folder, steps)
    assert _entries(cache) == [made.name]
    assert sorted(file.name for file in made.iterdir()) == ["openvino_model.bin", "openvino_model.xml"]


def test_full_disk_is_found_before_anything_is_written(
    cache: Path, tmp_path: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    with pytest.raises(
        ProvisionError, match=r"converting .*/Toy takes 0\.0 GB in the cache .*, and 0\.0 GB are free: "
    ):
        openvino_folder(write_toy_folder(tmp_path / "Toy"), steps)
    assert steps.seen == []
    assert _entries(cache) == []


def test_missing_openvino_is_told(tmp_path: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    with pytest.raises(ProvisionError, match=r"not installed: pip install 'tritone\[openvino\]'"):
        openvino_folder(write_toy_folder(tmp_path / "Toy"), steps)
