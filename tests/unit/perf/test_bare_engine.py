"""The bare engine is the adapter's engine, and its process does what it is told until there is nobody to tell it."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.openvino_adapter import load_pipeline
from perf.bare_engine import BareEngine, BareEngineError
from perf.bare_process import LOOPS, serve
from perf.engine_choice import REAL_ENGINES, engine_settings
from perf.records import RequestRecord

GIVEN = {"engine": "openvino", "model_path": "/model", "max_model_len": 100, "vocab_size": 10}


def test_openvino_takes_every_setting_of_the_adapters_pipeline() -> None:
    assert set(inspect.signature(load_pipeline).parameters) == set(engine_settings(GIVEN))


def test_every_engine_has_a_loop() -> None:
    assert set(LOOPS) == set(REAL_ENGINES)


class ScriptedConnection:
    """An end of a pipe that has `messages` to read, and then was closed at the far end."""

    def __init__(self, *messages: Any, answers_after_s: float = 0.0) -> None:
        self.sent: list[Any] = []
        self._messages = list(messages)
        self._answers_after_s = answers_after_s

    def send(self, message: Any) -> None:
        self.sent.append(message)

    def poll(self, timeout_s: float) -> bool:
        return timeout_s >= self._answers_after_s

    def recv(self) -> Any:
        if not self._messages:
            raise EOFError
        return self._messages.pop(0)


class ScriptedLoop:
    """Makes all tokens at once."""

    is_closed = False

    def burst(self, prompts: Sequence[Sequence[int]], tokens: int) -> list[RequestRecord]:
        return [RequestRecord(0, (prompt[0],), (tokens,)) for prompt in prompts]

    def close(self) -> None:
        self.is_closed = True


def test_process_loads_then_answers_each_burst() -> None:
    loop, made = ScriptedLoop(), []

    def make(engine: str, settings: dict[str, Any]) -> ScriptedLoop:
        made.append((engine, settings))
        return loop

    connection = ScriptedConnection(("vllm", {"dtype": "auto"}), ([[7], [8]], 3), ([[9]], 2))
    serve(connection, make)
    assert made == [("vllm", {"dtype": "auto"})]
    two, one = [RequestRecord(0, (7,), (3,)), RequestRecord(0, (8,), (3,))], [RequestRecord(0, (9,), (2,))]
    assert connection.sent == ["ready", two, one]
    assert loop.is_closed


def test_engine_is_closed_when_a_burst_fails() -> None:
    loop = ScriptedLoop()
    with pytest.raises(IndexError):
        serve(ScriptedConnection(("vllm", {}), ([[]], 3)), lambda engine, settings: loop)
    assert loop.is_closed


def test_parent_has_the_engine_loaded_then_sends_bursts(tmp_path: Path) -> None:
    records = [RequestRecord(0, (7,), (3,))]
    connection = ScriptedConnection("ready", records)
    engine = BareEngine(1, connection, tmp_path / "log")
    engine.load("vllm", {"dtype": "auto"})
    assert engine.burst([[7]], 3) == records
    assert connection.sent == [("vllm", {"dtype": "auto"}), ([[7]], 3)]


def test_process_that_has_ended_is_told_with_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("loading\nout of memory\n")
    with pytest.raises(BareEngineError, match=rf"has ended: loading out of memory \(all it said is in {log}\)"):
        BareEngine(1, ScriptedConnection(), log).load("vllm", {})


def test_reason_for_not_loading_is_told(tmp_path: Path) -> None:
    def make(engine: str, settings: dict[str, Any]) -> ScriptedLoop:
        raise ValueError("dtyp is no setting of vLLM")

    process = ScriptedConnection(("vllm", {"dtyp": "auto"}))
    with pytest.raises(ValueError, match="dtyp is no setting"):
        serve(process, make)
    assert process.sent == ["ValueError: dtyp is no setting of vLLM"]
    with pytest.raises(BareEngineError, match="vllm alone did not load: ValueError: dtyp is no setting of vLLM "):
        BareEngine(1, ScriptedConnection(*process.sent), tmp_path / "log").load("vllm", {"dtyp": "auto"})


def test_process_that_does_not_answer(tmp_path: Path) -> None:
    engine = BareEngine(1, ScriptedConnection("late", answers_after_s=601), tmp_path / "log")
    with pytest.raises(BareEngineError, match="did not answer within 600 s: look into"):
        engine.burst([[7]], 3)
