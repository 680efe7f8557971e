from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.tritone.conftest import Steps
from tritone.errors import ProvisionError
from tritone.pip_download import Wheel, download

_METADATA = "Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n"
_WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"

MakeWheel = Callable[[str, dict[str, str]], Path]
FakePip = Callable[[str], None]


@pytest.fixture
def toy(make_wheel: MakeWheel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Wheel:
    """A real wheel that the real pip finds without a network."""
    members = {"toy.txt": "hello", "toy-1.0.dist-info/METADATA": _METADATA, "toy-1.0.dist-info/WHEEL": _WHEEL}
    path = make_wheel("toy-1.0-py3-none-any.whl", {**members, "toy-1.0.dist-info/RECORD": ""})
    settings = {"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return Wheel("toy", "1.0", path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "staging"
    made.mkdir()
    return made


def test_pip_fetches_the_pinned_wheel_and_leaves_nothing_else(toy: Wheel, folder: Path, steps: Steps) -> None:
    path = download(toy, folder, steps)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == toy.sha256
    assert list(folder.iterdir()) == [folder / "toy-1.0-py3-none-any.whl"]
    assert steps.seen[-1] == ("Fetching toy-1.0", toy.size, toy.size)
    assert all(0 <= done < toy.size for _, done, _ in steps.seen[:-1])


def test_another_file_of_that_version_is_refused(toy: Wheel, folder: Path, steps: Steps) -> None:
    expected = f"pip could not fetch toy-1.0: .*another file than the one pinned by sha256 \\(Got {toy.sha256}\\)"
    with pytest.raises(ProvisionError, match=expected):
        download(Wheel("toy", "1.0", toy.size, "0" * 64), folder, steps)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "WARNING: Retrying (Retry(total=0)) after connection broken\nERROR: No matching distribution found for toy",
            "ERROR: No matching distribution found for toy -- pip could not reach its package index: check the network",
        ),
        (
            "ERROR: Could not find a version\nERROR: No matching distribution found for toy==1.0\n[notice] new pip",
            "ERROR: No matching distribution found for toy==1.0 -- pip took its settings from `pip config list`",
        ),
        ("ERROR: [Errno 28] No space left on device", "the disk is full: free some space, or set TRITONE_CACHE"),
        ("ERROR: Exception:\nTraceback\nOSError: broken", "OSError: broken -- pip took"),
        ("Killed", "Killed -- pip took"),
        ("", "(pip said nothing)"),
    ],
)
def test_failures_quote_pip_and_say_what_to_do(
    said: str, expected: str, fake_pip: FakePip, folder: Path, steps: Steps
) -> None:
    fake_pip(f"cat >&2 <<'END'\n{said}\nEND\nexit 1")
    with pytest.raises(ProvisionError, match=f"pip could not fetch toy-1.0: {re.escape(expected)}"):
        download(Wheel("toy", "1.0", 10, "0" * 64), folder, steps)


def test_growing_files_are_shown_as_progress(fake_pip: FakePip, folder: Path, steps: Steps) -> None:
    unpack = "$TMPDIR/unpack"
    fake_pip(f'mkdir {unpack}; head -c 500000 /dev/zero > {unpack}/x; sleep 0.5; mv {unpack}/x "$folder"/x.whl')
    download(Wheel("toy", "1.0", 1_000_000, "0" * 64), folder, steps)
    assert any(500_000 <= done < 501_000 for _, done, _ in steps.seen)


def test_python_without_pip_is_told_how_to_get_it(folder: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ProvisionError, match=r"has no pip, which is needed to fetch toy-1\.0: run `.* -m ensurepip`"):
        download(Wheel("toy", "1.0", 10, "0" * 64), folder, steps)


def test_interrupted_download_ends_pip(fake_pip: FakePip, folder: Path) -> None:
    fake_pip('echo $$ > "$folder"/pid; exec sleep 60')

    def interrupt(what: str, done: int, total: int) -> None:
        if (folder / "pid").exists() and (folder / "pid").read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(Wheel("toy", "1.0", 10, "0" * 64), folder, interrupt)
    pid = (folder / "pid").read_text().strip()
    assert not Path(f"/proc/{pid}").exists()
