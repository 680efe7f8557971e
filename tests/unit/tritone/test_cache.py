from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tritone.cache import artifact, cache_dir, cached, discard, files_digest
from tritone.errors import ProvisionError

# Run with the cache and a log file as arguments: builds an artifact slowly and says when it is inside.
_BUILDER = """
import sys, time
from pathlib import Path
from tritone.cache import artifact
log = Path(sys.argv[1])
def build(folder):
    with log.open("a") as file:
        file.write("built\\n")
    (folder / "half").write_text("done")
    print("inside", flush=True)
    time.sleep(float(sys.argv[2]))
print(artifact("thing", build) / "half")
"""


def _start_builder(log: Path, seconds: float) -> subprocess.Popen[str]:
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", _BUILDER, str(log), str(seconds)]
    return subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True)


def test_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITONE_CACHE", "~/here")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "here"


@pytest.mark.parametrize(
    ("xdg", "platform", "expected"),
    [
        (None, "linux", "home/.cache/tritone"),
        ("relative", "linux", "home/.cache/tritone"),
        ("/xdg", "linux", "/xdg/tritone"),
        ("/xdg", "darwin", "home/Library/Caches/tritone"),
    ],
)
def test_cache_defaults_to_the_place_of_the_platform(
    xdg: str | None, platform: str, expected: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRITONE_CACHE", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if xdg:
        monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    assert cache_dir() == tmp_path / expected


def test_artifact_is_built_once(cache: Path) -> None:
    builds: list[Path] = []
    for _ in range(2):
        assert artifact("thing", builds.append) == cache / "thing"
    assert len(builds) == 1
    assert cached("thing") == cache / "thing"


def test_failed_build_leaves_nothing_and_may_be_tried_again(cache: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        artifact("thing", fail)
    assert [entry.name for entry in cache.iterdir()] == ["locks"]
    assert artifact("thing", lambda folder: None).is_dir()


def test_leftovers_of_a_killed_process_are_removed_by_the_next(cache: Path, tmp_path: Path) -> None:
    with _start_builder(tmp_path / "log", 60) as builder:
        assert builder.stdout is not None
        assert builder.stdout.readline() == "inside\n"
        os.kill(builder.pid, signal.SIGKILL)
    assert len([entry for entry in cache.iterdir() if entry.name.startswith(".thing.")]) == 1
    assert list(artifact("thing", lambda folder: None).iterdir()) == []
    assert sorted(entry.name for entry in cache.iterdir()) == ["locks", "thing"]


def test_two_processes_at_once_build_once(tmp_path: Path) -> None:
    with _start_builder(tmp_path / "log", 0.3) as one, _start_builder(tmp_path / "log", 0.3) as other:
        answers = [builder.communicate(timeout=30)[0].splitlines()[-1] for builder in (one, other)]
    assert [Path(answer).read_text() for answer in answers] == ["done", "done"]
    assert (tmp_path / "log").read_text() == "built\n"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_is_explained(number: int, cache: Path) -> None:
    def fill(folder: Path) -> None:
        raise OSError(number, os.strerror(number), str(folder))

    with pytest.raises(ProvisionError, match=f"the disk is full while preparing thing in the cache {cache}: .*TRITONE"):
        artifact("thing", fill)


def test_cache_that_cannot_be_written_is_explained(cache: Path) -> None:
    cache.write_text("a file")
    with pytest.raises(
        ProvisionError, match=f"cannot write {cache}/locks .*set TRITONE_CACHE to a folder you may write"
    ):
        artifact("thing", lambda folder: None)


def test_other_errors_of_a_build_come_out_unchanged() -> None:
    def fail(folder: Path) -> None:
        raise FileNotFoundError(errno.ENOENT, "gone", "weights")

    with pytest.raises(FileNotFoundError, match="weights"):
        artifact("thing", fail)


def test_discard_removes_the_artifact_and_nothing_else(cache: Path) -> None:
    artifact("thing", lambda folder: None)
    artifact("other", lambda folder: None)
    discard("thing")
    discard("thing")
    assert sorted(entry.name for entry in cache.iterdir()) == ["locks", "other"]


def test_digest_of_files_changes_with_each_of_them_and_each_fact(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("1")
    other.write_text("2")
    os.utime(other, ns=(one.stat().st_atime_ns, one.stat().st_mtime_ns))
    digests = [files_digest([one], 1), files_digest([other], 1), files_digest([one, other], 1), files_digest([one], 2)]
    one.write_text("12")
    digests.append(files_digest([one], 1))
    os.utime(one, (1, 1))
    digests.append(files_digest([one], 1))
    assert len(set(digests)) == len(digests)
    assert files_digest([one], 1) == digests[-1]
