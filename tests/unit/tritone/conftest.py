"""Every test here has a cache of its own and a pip that is a script."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.unit.tritone.toy_openvino import write_openvino_folder
from tests.unit.tritone.toy_safetensors import CONFIG
from tritone.rope_frequencies import base_frequencies


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("TRITONE_CACHE", str(folder))
    return folder


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str, str], Path]:
    """Writes an executable shell script into `<tmp_path>/bin`."""

    def write(name: str, body: str) -> Path:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def fake_pip(script: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes `python -m pip ...` run this shell text instead; `$folder` is where pip is told to put the wheel."""

    def install(body: str) -> None:
        path = script("python", f"for folder; do :; done\n{body}")
        monkeypatch.setattr(sys, "executable", str(path))

    return install


@pytest.fixture
def fake_openvino(
    tmp_path: Path, script: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    """Makes `python -c CODE GGUF FOLDER` run this shell text first, and then convert each GGUF file to a toy model."""

    def install(body: str) -> None:
        made = tmp_path / "made by openvino"
        made.mkdir()
        write_openvino_folder(made, ("f16", base_frequencies(CONFIG["rope_theta"], CONFIG["head_dim"])))
        convert = f'test -s "$3" && cp "{made}"/openvino_model.* "$4" && echo >> "$0.runs"'
        monkeypatch.setattr(sys, "executable", str(script("python", f"{body}\n{convert}")))

    return install


@pytest.fixture
def make_wheel(tmp_path: Path) -> Callable[[str, Mapping[str, str]], Path]:
    """Writes a zip of {member name: text}; members whose name has `/bin/` are executable."""

    def write(name: str, members: Mapping[str, str]) -> Path:
        path = tmp_path / name
        with zipfile.ZipFile(path, "w") as archive:
            for member, text in members.items():
                info = zipfile.ZipInfo(member)
                info.external_attr = (0o755 if "/bin/" in member else 0o644) << 16
                archive.writestr(info, text)
        return path

    return write


class Steps:
    """A progress callback that keeps what it was told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int]] = []

    def __call__(self, what: str, done: int, total: int) -> None:
        self.seen.append((what, done, total))


@pytest.fixture
def steps() -> Steps:
    return Steps()
