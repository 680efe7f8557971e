"""The trace says exactly what was handed over when."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.adapter import EngineRequest, TokenDelta
from engine.scripted_adapter import ScriptedAdapter
from engine.token_trace import TokenTrace


def test_line_has_key_ids_so_far_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times_ns = iter((1_000, 2_000, 3_000))
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(times_ns))
    trace = TokenTrace(str(tmp_path / "trace"))
    trace.write([TokenDelta(7, (1, 2)), TokenDelta(8, (3,))])
    trace.write([TokenDelta(7, (4,), "length")])
    trace.write([TokenDelta(7, (5,))])
    trace.close()
    assert (tmp_path / "trace").read_text() == "7 2 1000\n8 1 1000\n7 3 2000\n7 1 3000\n"


def test_scripted_engine_traces_every_id(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    engine = ScriptedAdapter(tokens_per_second=5000.0, max_num_seqs=2, trace_file=str(path))
    engine.start()
    before_ns = time.monotonic_ns()
    engine.submit(EngineRequest(3, (5, 6), 20))
    ids = 0
    while ids < 20:
        ids += sum(len(delta.ids) for delta in engine.take(1.0))
    lines = [[int(word) for word in line.split()] for line in path.read_text().splitlines()]
    engine.stop()
    assert {key for key, _, _ in lines} == {3}
    assert [made for _, made, _ in lines] == sorted({made for _, made, _ in lines})
    assert lines[-1][1] == 20
    assert before_ns < lines[0][2] <= lines[-1][2] < time.monotonic_ns()
