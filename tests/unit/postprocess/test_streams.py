"""The state of live streams: keyed by stream, gone with the last chunk or with the row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.stream_table import EngineTable, StreamKey, table_path
from postprocess import streams as streams_module
from postprocess.logprobs import ChunkLogprobs
from postprocess.streams import Reply, Streams

from .streams import BYTE_LEVEL

PID = 77


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineTable]:
    table = EngineTable(table_path(tmp_path, PID, "m_engine"), 4)
    yield table
    table.close()


@pytest.fixture
def streams(tmp_path: Path, engine: EngineTable, monkeypatch: pytest.MonkeyPatch) -> Streams:
    monkeypatch.setattr(streams_module, "SWEEP_INTERVAL_S", 0.0)
    return Streams(BYTE_LEVEL, tmp_path, PID, "m_engine")


def context(**changes: Any) -> str:
    fields = {"stop": [], "include_stop": False, "skip_special": True, "stream": True, "end_ids": [], "min_tokens": 0}
    return json.dumps({**fields, "logprobs": False, "num_input_tokens": 3, "echo_text": "", "echo_ids": [], **changes})


def feed(streams: Streams, key: StreamKey, data: bytes, reason: str = "", context: str = "") -> Reply | None:
    return streams.feed(key, context=context, ids=list(data), finish_reason=reason)


def test_b12_state_is_keyed_by_stream_and_goes_with_its_last_chunk(streams: Streams, engine: EngineTable) -> None:
    first = engine.open()
    assert feed(streams, first, b"abc", context=context()) == Reply("abc", "", 3, 3)
    assert feed(streams, first, b"def", "length") == Reply("def", "length", 6, 3)
    assert len(streams) == 0
    engine.free(first)
    second = [engine.open() for _ in range(4)][-1]
    assert second.row == first.row
    assert feed(streams, second, b"xyz", "length", context()) == Reply("xyz", "length", 3, 3)
    assert len(streams) == 0


def test_cancelled_stream_is_swept_when_its_row_is_gone(streams: Streams, engine: EngineTable) -> None:
    gone, live = engine.open(), engine.open()
    feed(streams, gone, b"abc", context=context())
    feed(streams, live, b"abc", context=context())
    streams.sweep()
    assert len(streams) == 2
    engine.free(gone)
    streams.sweep()
    assert len(streams) == 1
    assert feed(streams, live, b"d", "length") == Reply("d", "length", 4, 3)


def test_complete_stop_string_tells_the_engine(streams: Streams, engine: EngineTable) -> None:
    key = engine.open()
    assert feed(streams, key, b"ab", context=context(stop=["bc"])) == Reply("a", "", 2, 3)
    assert not engine.is_stopped(key)
    assert feed(streams, key, b"cd") == Reply("", "stop", 3, 3)
    assert engine.is_stopped(key)
    assert feed(streams, key, b"zz", "stop") is None
    assert len(streams) == 0


def test_stream_that_waits_gets_one_empty_response_and_a_whole_answer_none(
    streams: Streams, engine: EngineTable
) -> None:
    stream, whole = engine.open(), engine.open()
    assert feed(streams, stream, b"", context=context()) == Reply("", "", 0, 3)
    assert feed(streams, stream, b"") is None
    assert feed(streams, whole, b"", context=context(stream=False)) is None


def test_tokens_of_the_prompt_come_with_the_first_and_the_last_reply(streams: Streams, engine: EngineTable) -> None:
    key = engine.open()
    replies = [feed(streams, key, b"a", context=context()), feed(streams, key, b"b"), feed(streams, key, b"c", "stop")]
    assert replies == [Reply("a", "", 1, 3), Reply("b", "", 2, None), Reply("c", "stop", 3, 3)]


def test_log_probabilities_come_with_each_reply_of_a_stream_that_asked(streams: Streams, engine: EngineTable) -> None:
    def feed_asked(data: bytes, reason: str = "", context: str = "") -> tuple[str, list[str]] | None:
        told = ChunkLogprobs([0.0] * len(data))
        reply = streams.feed(key, context=context, ids=list(data), finish_reason=reason, read_logprobs=lambda: told)
        return reply and (reply.text, [entry["token"] for entry in json.loads(reply.logprobs or "")])

    key = engine.open()
    assert feed_asked(b"", context=context(logprobs=True)) == ("", [])
    assert feed_asked(b"ab") == ("ab", ["a", "b"])
    assert feed_asked(b"\xc3") is None
    assert feed_asked(b"\xa9c", "length") == ("éc", ["\ufffd", "\ufffd", "c"])
    key = engine.open()
    assert feed_asked(b"ab", context=context(logprobs=True, stream=False, stop=["bc"])) is None
    assert feed_asked(b"cde") == ("a", ["a", "b", "c"])
    assert feed_asked(b"", "stop") is None


def test_log_probabilities_are_not_read_for_others(streams: Streams, engine: EngineTable) -> None:
    def unread() -> ChunkLogprobs:
        pytest.fail("read")

    key = engine.open()
    reply = streams.feed(key, context=context(), ids=[97], finish_reason="length", read_logprobs=unread)
    assert reply == Reply("a", "length", 1, 3, None)


def test_stream_that_asked_and_was_told_nothing_is_an_error(streams: Streams, engine: EngineTable) -> None:
    with pytest.raises(ValueError, match=r"^1 ids came with log probabilities of \[0, 0, 0\]$"):
        feed(streams, engine.open(), b"a", context=context(logprobs=True))


def test_client_that_left_stops_its_stream(streams: Streams, engine: EngineTable) -> None:
    key = engine.open()
    feed(streams, key, b"a", context=context())
    streams.check_left(key, lambda: False)
    assert not engine.is_stopped(key)
    streams.check_left(key, lambda: True)
    assert not engine.is_stopped(key)  # asked a moment ago
    streams._answers[key].checked_at_s = 0.0
    streams.check_left(key, lambda: True)
    assert engine.is_stopped(key)
    assert feed(streams, key, b"", "stop") == Reply("", "stop", 1, 3)
    assert len(streams) == 0


def test_finished_stream_is_not_asked_for(streams: Streams, engine: EngineTable) -> None:
    key = engine.open()
    feed(streams, key, b"a", "length", context())
    streams.check_left(key, lambda: pytest.fail("asked"))


def test_chunk_is_acknowledged(streams: Streams, engine: EngineTable) -> None:
    key = engine.open()
    feed(streams, key, b"a", context=context())
    number = engine.send(key)
    assert engine.take_acked() == []
    streams.acknowledge(key, number)
    assert engine.take_acked() == [key.row]


def test_chunk_of_an_unknown_stream_is_an_error(streams: Streams) -> None:
    with pytest.raises(KeyError):
        feed(streams, StreamKey(0, 9), b"a")


def test_dropped_stream_is_forgotten_and_stopped(streams: Streams, engine: EngineTable) -> None:
    key = engine.open()
    feed(streams, key, b"a", context=context())
    streams.drop(key)
    assert (len(streams), engine.is_stopped(key)) == (0, True)


def test_context_that_is_none_is_an_error_and_leaves_nothing(streams: Streams, engine: EngineTable) -> None:
    with pytest.raises(ValueError, match="stream_context"):
        feed(streams, engine.open(), b"a", context="[]")
    assert len(streams) == 0


def test_b11_unknown_ids_are_logged_once(
    streams: Streams, engine: EngineTable, caplog: pytest.LogCaptureFixture
) -> None:
    key = engine.open()
    assert streams.feed(key, context=context(), ids=[97, 300, 98], finish_reason="") == Reply("ab", "", 3, 3)
    streams.feed(key, context="", ids=[-1, 2**31 - 1], finish_reason="")
    assert len(caplog.records) == 1
