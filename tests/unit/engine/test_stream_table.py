"""The stream table: what one side writes the other reads, for the right stream only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.strategies import data

from engine.stream_table import EngineTable, PostprocessTable, StreamKey, TableFullError, table_path
from ensemble_repo.contract import TOO_MANY_REQUESTS

ROWS = 3


@pytest.fixture
def tables(tmp_path: Path):
    engine = EngineTable(tmp_path / "streams", ROWS)
    postprocess = PostprocessTable(tmp_path / "streams")
    yield engine, postprocess
    engine.close()
    postprocess.close()


def test_file_is_private_and_named_after_server_and_model(tmp_path: Path) -> None:
    path = table_path(tmp_path, 42, "m_engine")
    assert path == tmp_path / "streams-42-m_engine"
    EngineTable(path, ROWS).close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_size == (ROWS + 1) * 32


def test_acknowledged_chunk_is_taken_once(tables) -> None:
    engine, postprocess = tables
    key = engine.open()
    assert engine.take_acked() == []
    assert engine.send(key) == 1
    assert engine.take_acked() == []
    postprocess.ack(key, 1)
    assert engine.take_acked() == [key.row]
    assert engine.take_acked() == []


def test_older_acknowledgement_does_not_count(tables) -> None:
    engine, postprocess = tables
    key = engine.open()
    engine.send(key)
    postprocess.ack(key, 1)
    assert engine.take_acked() == [key.row]
    assert engine.send(key) == 2
    postprocess.ack(key, 1)
    assert engine.take_acked() == []


def test_words_of_an_earlier_stream_in_the_row_mean_nothing(tables) -> None:
    engine, postprocess = tables
    old = engine.open()
    engine.send(old)
    engine.free(old)
    keys = [engine.open() for _ in range(ROWS)]
    new = keys[-1]
    assert new.row == old.row
    assert new.generation != old.generation
    engine.send(new)
    postprocess.ack(old, 1)
    postprocess.stop(old)
    assert engine.take_acked() == []
    assert not engine.is_stopped(new)
    assert not postprocess.is_live(old)
    assert postprocess.is_live(new)


def test_stop_is_seen_by_the_engine(tables) -> None:
    engine, postprocess = tables
    key = engine.open()
    assert not engine.is_stopped(key)
    postprocess.stop(key)
    assert engine.is_stopped(key)


def test_full_table_refuses_and_loses_nothing(tables) -> None:
    engine, _ = tables
    keys = [engine.open() for _ in range(ROWS)]
    with pytest.raises(TableFullError, match=f"^{TOO_MANY_REQUESTS}: all 3 rows"):
        engine.open()
    assert engine.live == ROWS
    engine.free(keys[1])
    assert engine.open().row == keys[1].row


def test_engine_learns_who_reads(tmp_path: Path) -> None:
    engine = EngineTable(tmp_path / "streams", ROWS)
    assert engine.postprocess_pid == 0
    postprocess = PostprocessTable(tmp_path / "streams")
    assert engine.postprocess_pid == os.getpid()
    assert not postprocess.is_live(StreamKey(ROWS, os.getpid()))
    engine.close()
    postprocess.close()


def test_row_outside_the_table_is_not_live(tables) -> None:
    _, postprocess = tables
    assert not postprocess.is_live(StreamKey(ROWS, 1))
    postprocess.ack(StreamKey(ROWS + 7, 1), 1)


def test_reopened_file_starts_empty(tmp_path: Path) -> None:
    path = tmp_path / "streams"
    first = EngineTable(path, ROWS)
    key = first.open()
    reader = PostprocessTable(path)
    first.close()
    inode = os.stat(path).st_ino
    second = EngineTable(path, ROWS)
    assert os.stat(path).st_ino == inode
    assert not PostprocessTable(path).is_live(key)
    reader.close()
    second.close()


class TableMachine(RuleBasedStateMachine):
    """Any order of opens, sends, acks, stops and frees, against a dictionary."""

    @initialize()
    def make(self) -> None:
        path = Path(os.environ.get("TMPDIR", "/tmp")) / f"tritone-table-{os.getpid()}"
        self.engine = EngineTable(path, ROWS)
        self.postprocess = PostprocessTable(path)
        path.unlink()
        self.live: dict[StreamKey, list[int]] = {}  # sent, acked
        self.ever: list[StreamKey] = []
        self.stopped: set[StreamKey] = set()

    @precondition(lambda self: len(self.live) < ROWS)
    @rule()
    def open(self) -> None:
        key = self.engine.open()
        assert key not in self.ever
        assert key.row not in {other.row for other in self.live}
        self.ever.append(key)
        self.live[key] = [0, 0]

    @precondition(lambda self: self.live)
    @rule(source=data())
    def send(self, source) -> None:
        key = source.draw(source_of(sorted(self.live)))
        self.live[key][0] += 1
        assert self.engine.send(key) == self.live[key][0]

    @precondition(lambda self: self.ever)
    @rule(source=data())
    def ack(self, source) -> None:
        key = source.draw(source_of(self.ever))
        chunk = self.live.get(key, [1])[0]
        if chunk:
            self.postprocess.ack(key, chunk)
            if key in self.live:
                expected = [key.row] if self.live[key][1] != chunk else []
                self.live[key][1] = chunk
                assert self.engine.take_acked() == expected

    @precondition(lambda self: self.ever)
    @rule(source=data())
    def stop(self, source) -> None:
        key = source.draw(source_of(self.ever))
        self.postprocess.stop(key)
        if key in self.live:
            self.stopped.add(key)

    @precondition(lambda self: self.live)
    @rule(source=data())
    def free(self, source) -> None:
        key = source.draw(source_of(sorted(self.live)))
        self.engine.free(key)
        del self.live[key]

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "live"):
            assert self.engine.live == len(self.live)
            assert {key for key in self.ever if self.postprocess.is_live(key)} == set(self.live)
            assert all(self.engine.is_stopped(key) == (key in self.stopped) for key in self.live)

    def teardown(self) -> None:
        if hasattr(self, "live"):
            self.engine.close()
            self.postprocess.close()


def source_of(keys):
    from hypothesis.strategies import sampled_from

    return sampled_from(keys)


TableMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestTableMachine = TableMachine.TestCase
