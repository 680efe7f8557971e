from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from tritone.gateway.log_file import LogFile, LogFileError, LogFileLimits

LINE = b"x" * 99 + b"\n"
DAY_S = 86400


def limits(max_bytes: int = 1000, max_files: int = 3, max_days: int = 30) -> LogFileLimits:
    return LogFileLimits(max_bytes, max_files, max_days)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "requests.jsonl"


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.parent.iterdir())


@pytest.mark.parametrize(("max_files", "kept"), [(1, [1000]), (2, [1000, 1000]), (3, [1000, 1000, 1000])])
def test_b63_keeps_so_many_files_of_that_size(path: Path, max_files: int, kept: list[int]) -> None:
    log = LogFile(str(path), limits(max_files=max_files))
    for _ in range(60):
        log.write(LINE)
    assert [entry.stat().st_size for entry in sorted(path.parent.iterdir())] == kept


def test_the_newest_is_number_one(path: Path) -> None:
    log = LogFile(str(path), limits(max_bytes=10))
    for number in range(5):
        log.write(b"line %d\n" % number)
    found = {name: (path.parent / name).read_bytes() for name in names(path)}
    assert found == {path.name: b"line 4\n", f"{path.name}.1": b"line 3\n", f"{path.name}.2": b"line 2\n"}


def test_b63_goes_on_in_a_new_file_when_it_was_renamed(path: Path) -> None:
    log = LogFile(str(path), limits())
    log.write(b"one\n")
    path.rename(path.parent / "aside")
    log.write(b"two\n")
    assert (path.read_bytes(), (path.parent / "aside").read_bytes()) == (b"two\n", b"one\n")


def test_b63_leaves_no_gap_when_it_was_truncated(path: Path) -> None:
    log = LogFile(str(path), limits())
    log.write(LINE)
    os.truncate(path, 0)
    log.write(b"two\n")
    assert path.read_bytes() == b"two\n"


def test_a_new_day_begins_a_new_file_and_old_ones_go(path: Path) -> None:
    log = LogFile(str(path), limits(max_days=2))
    log.write(b"old\n")
    os.utime(path, (time.time() - 3 * DAY_S,) * 2)
    log.write(b"yesterday\n")
    assert names(path) == [path.name]
    os.utime(path, (time.time() - DAY_S,) * 2)
    log.write(b"today\n")
    assert (path.read_bytes(), (path.parent / f"{path.name}.1").read_bytes()) == (b"today\n", b"yesterday\n")


def test_writers_do_not_mix_their_lines(path: Path) -> None:
    def write(letter: bytes) -> None:
        log = LogFile(str(path), limits(max_bytes=5000, max_files=100))
        for _ in range(200):
            log.write(letter * 99 + b"\n")

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    files = list(path.parent.iterdir())
    lines = [line for file in files for line in file.read_bytes().splitlines()]
    assert len(lines) == 600
    assert all(len(line) == 99 and len(set(line)) == 1 for line in lines)
    assert max(file.stat().st_size for file in files) <= 5000


def test_b63_a_folder_that_is_not_there_is_an_error_at_start(tmp_path: Path) -> None:
    with pytest.raises(LogFileError, match=r"log_file: .*/no/log cannot be written: No such file or directory"):
        LogFile(str(tmp_path / "no" / "log"), limits())
