from __future__ import annotations

import os
import subprocess
from pathlib import Path

import psutil
import pytest

from engine.stream_table import EngineTable, table_path
from tritone.run_dir import VARIABLE, RunDir, RunDirError, base_dir, processes_of, run_dir


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "tritone"


def sleeper(run_path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"], env={**os.environ, VARIABLE: str(run_path)})


def test_a_run_folder_lives_as_long_as_its_block(base: Path) -> None:
    with run_dir() as run:
        assert run.path.parent == base
        assert run.path.name.startswith(f"{os.getpid()}-")
        assert run.path.stat().st_mode & 0o777 == 0o700
        run.write_state({"a": 1})
        assert [entry.name for entry in run.path.iterdir()] == ["state.json"]
    assert list(base.iterdir()) == []


def test_removes_itself_after_an_error_too(base: Path) -> None:
    with pytest.raises(KeyboardInterrupt), run_dir():
        raise KeyboardInterrupt
    assert list(base.iterdir()) == []


def test_what_belongs_to_a_run_goes_with_it() -> None:
    with run_dir() as run, sleeper(run.path) as process:
        shm = Path("/dev/shm", f"{run.shm_prefix}1234")
        shm.touch()
        assert [found.pid for found in processes_of(run.path)] == [process.pid]
        run.clear_server()
        assert not psutil.pid_exists(process.pid)
        assert not shm.exists()
        assert run.path.exists()


def test_a_dead_launchers_folder_is_removed_with_all_it_had_and_a_live_ones_is_not(base: Path) -> None:
    with run_dir() as alive:
        dead = RunDir(base / "1-dead")
        dead.path.mkdir()
        shm = Path("/dev/shm", f"{dead.shm_prefix}1234")
        shm.touch()
        with sleeper(dead.path) as orphan, run_dir():
            assert not psutil.pid_exists(orphan.pid)
            assert not dead.path.exists()
            assert not shm.exists()
            assert alive.path.exists()


def test_a_folder_that_others_can_write_is_refused(base: Path) -> None:
    base.mkdir()
    base.chmod(0o777)
    with pytest.raises(RunDirError, match="can be written by others"):
        base_dir()


def test_without_a_runtime_folder_it_is_one_of_this_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert base_dir() == tmp_path / f"tritone-{os.getuid()}"


def test_counts_the_streams_of_the_engines_table(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    assert run.live_streams() == 0
    table = EngineTable(table_path(tmp_path, 1, "m_engine"), 8)
    keys = [table.open() for _ in range(3)]
    assert run.live_streams() == 3
    table.free(keys[1])
    assert run.live_streams() == 2
    table.close()
    run.clear_server()
    assert list(tmp_path.iterdir()) == []
