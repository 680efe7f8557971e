from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.unit.tritone.conftest import Steps
from tritone.cache import cached
from tritone.errors import ProvisionError
from tritone.pip_download import Wheel
from tritone.wheels import extract, members_under, wheel_artifact

MakeWheel = Callable[[str, Mapping[str, str]], Path]

TOY = Wheel("toy", "1.0", 10, "0" * 64)
MEMBERS = {"toy/bin/tool": "#!/bin/sh", "toy/data.txt": "hello", "other.txt": "no"}


@pytest.fixture
def pip_calls(make_wheel: MakeWheel, fake_pip: Callable[[str], None], tmp_path: Path) -> Path:
    """A file with one line for each time pip was run; pip hands out a wheel with MEMBERS."""
    wheel, calls = make_wheel("toy-1.0-py3-none-any.whl", MEMBERS), tmp_path / "calls"
    fake_pip(f'echo run >> {calls}; cp {wheel} "$folder"/')
    return calls


def _unpack(archive: zipfile.ZipFile, folder: Path) -> None:
    extract(archive, {name: folder / name for name in members_under(archive, "toy/")}, Steps())


def test_wheel_is_fetched_unpacked_and_dropped(pip_calls: Path, steps: Steps, cache: Path) -> None:
    for _ in range(2):
        made = wheel_artifact("thing", TOY, _unpack, steps)
    assert (made / "toy/data.txt").read_text() == "hello"
    assert not (made / "other.txt").exists()
    assert pip_calls.read_text() == "run\n"
    assert sorted(entry.name for entry in cache.iterdir()) == ["locks", "thing"]


def test_fetched_wheel_is_kept_when_unpacking_was_broken_off(pip_calls: Path, steps: Steps) -> None:
    def break_off(archive: zipfile.ZipFile, folder: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wheel_artifact("thing", TOY, break_off, steps)
    assert cached("toy-1.0") is not None
    wheel_artifact("thing", TOY, _unpack, steps)
    assert pip_calls.read_text() == "run\n"
    assert cached("toy-1.0") is None


def test_extract_keeps_execute_bits_and_counts_bytes(make_wheel: MakeWheel, tmp_path: Path, steps: Steps) -> None:
    with zipfile.ZipFile(make_wheel("toy-1.0-py3-none-any.whl", MEMBERS)) as archive:
        names = ["toy/bin/tool", "toy/data.txt"]
        extract(archive, {name: tmp_path / "to" / name for name in names}, steps)
    assert [(tmp_path / "to" / name).stat().st_mode & 0o777 for name in names] == [0o755, 0o644]
    assert steps.seen == [("Unpacking toy-1.0", 9, 14), ("Unpacking toy-1.0", 14, 14)]


def test_wheel_without_an_expected_part_is_refused(make_wheel: MakeWheel) -> None:
    with (
        zipfile.ZipFile(make_wheel("toy-1.0-py3-none-any.whl", MEMBERS)) as archive,
        pytest.raises(ProvisionError, match=r"toy-1\.0-py3-none-any\.whl has no libs/"),
    ):
        members_under(archive, "toy/", "libs/")
