from __future__ import annotations

import sys

import pytest

from tritone.progress import StderrProgress

MB = 1_000_000


def _download(progress: StderrProgress, megabytes: int) -> None:
    for done in range(megabytes + 1):
        progress("Fetching it", done * MB, megabytes * MB)


def test_log_file_gets_a_line_for_each_quarter(capsys: pytest.CaptureFixture[str]) -> None:
    _download(StderrProgress(), 8)
    captured = capsys.readouterr()
    lines = [f"Fetching it: {done}.0 of 8.0 MB" for done in (0, 2, 4, 6, 8)]
    assert captured.err.splitlines() == lines
    assert captured.out == ""


def test_terminal_gets_one_line_that_is_redrawn(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    _download(StderrProgress(), 2)
    drawn = "Fetching it: 0.0 of 2.0 MB\x1b[K\rFetching it: 1.0 of 2.0 MB\x1b[K\rFetching it: 2.0 of 2.0 MB\n"
    assert capsys.readouterr().err == drawn


def test_each_thing_starts_anew(capsys: pytest.CaptureFixture[str]) -> None:
    progress = StderrProgress()
    progress("One", MB, MB)
    progress("Two", MB, MB)
    progress("Nothing", 0, 0)
    assert capsys.readouterr().err.splitlines() == [
        "One: 1.0 of 1.0 MB",
        "Two: 1.0 of 1.0 MB",
        "Nothing: 0.0 of 0.0 MB",
    ]
