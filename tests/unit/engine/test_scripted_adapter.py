"""The scripted engine plays exactly what it is told."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from engine.adapter import EngineDiedError, EngineRequest, Load, TokenLogprob
from engine.scripted_adapter import ScriptedAdapter, token_logprob

FAST = 5000.0


def adapter(**settings: Any) -> ScriptedAdapter:
    made = ScriptedAdapter(**{"tokens_per_second": FAST, "max_num_seqs": 4, **settings})
    made.start()
    return made


def play(engine: ScriptedAdapter, *requests: EngineRequest, seconds: float = 5.0) -> dict[int, tuple[list[int], str]]:
    """Ids and finish reason of each request."""
    for request in requests:
        engine.submit(request)
    made: dict[int, tuple[list[int], str]] = {request.key: ([], "") for request in requests}
    until_s = time.monotonic() + seconds
    while any(not reason for _, reason in made.values()) and time.monotonic() < until_s:
        for delta in engine.take(0.1):
            ids, _ = made[delta.key]
            made[delta.key] = (ids + list(delta.ids), delta.finish_reason)
    return made


def test_prompt_comes_back_and_ends_with_the_end_token() -> None:
    request = EngineRequest(1, (5, 6, 7), 100, end_ids=(2,))
    assert play(adapter(), request) == {1: ([5, 6, 7, 2], "stop")}


def test_without_end_token_the_prompt_is_repeated_to_the_limit() -> None:
    assert play(adapter(), EngineRequest(1, (5, 6, 7), 8)) == {1: ([5, 6, 7, 5, 6, 7, 5, 6], "length")}


def test_limit_before_the_end_token() -> None:
    assert play(adapter(), EngineRequest(1, (5, 6, 7), 2, end_ids=(2,))) == {1: ([5, 6], "length")}


def test_min_tokens_put_the_end_off() -> None:
    request = EngineRequest(1, (5, 6), 100, min_tokens=5, end_ids=(2,))
    assert play(adapter(), request) == {1: ([5, 6, 2, 5, 6, 2], "stop")}


def test_single_stop_sequence_ends_it_like_an_end_token() -> None:
    request = EngineRequest(1, (5, 6, 7), 100, end_ids=(2,), stop_sequences=((7, 5), (6,)))
    assert play(adapter(), request) == {1: ([5, 6], "stop")}


def test_more_requests_than_slots_wait_and_all_finish() -> None:
    engine = adapter(max_num_seqs=2)
    requests = [EngineRequest(key, (key,), 3, end_ids=(99,)) for key in range(1, 6)]
    made = play(engine, *requests)
    assert made == {key: ([key, 99], "stop") for key in range(1, 6)}


def test_load_counts_running_and_waiting() -> None:
    engine = adapter(max_num_seqs=2, tokens_per_second=1.0)
    for key in range(3):
        engine.submit(EngineRequest(key, (key,), 3))
    assert engine.load() == Load(2, 1, 1.0)


def test_rate_is_the_set_one_even_when_steps_are_late() -> None:
    engine = adapter(tokens_per_second=1000.0)
    engine.submit(EngineRequest(1, (5,), 10_000))
    time.sleep(0.25)
    made = sum(len(delta.ids) for delta in engine.take(0))
    assert 250 <= made < 400


def test_newcomer_gets_no_token_of_a_step_before_it_came() -> None:
    engine = adapter(tokens_per_second=10.0)
    engine.submit(EngineRequest(1, (5,), 10_000))
    time.sleep(0.25)
    engine.submit(EngineRequest(2, (6,), 10_000))
    assert [(delta.key, len(delta.ids)) for delta in engine.take(0)] == [(1, 2)]


def test_abort_frees_the_slot_at_once() -> None:
    engine = adapter(max_num_seqs=1)
    engine.submit(EngineRequest(1, (5,), 10_000))
    engine.submit(EngineRequest(2, (6,), 1))
    engine.abort(1)
    assert engine.load() == Load(1, 0, 1.0)
    engine.abort(2)
    engine.abort(77)
    assert engine.load() == Load(0, 0, 0.0)


@pytest.fixture
def scripts(tmp_path: Path) -> str:
    entries: list[dict[str, Any]] = [
        {"prompt_ids": [1], "steps": [[10, 11], [], [12]]},
        {"prompt_ids": [2], "steps": [[10], [11]], "fault": "raise", "fault_step": 1},
        {"prompt_ids": [3], "steps": [[10]], "fault": "stall", "fault_step": 1},
        {"prompt_ids": [4], "steps": [[10]], "fault": "die", "fault_step": 0},
        {"prompt_ids": [5], "steps": [[300, -1], [4294967296, 2, 13]]},
    ]
    path = tmp_path / "scripts.json"
    path.write_text(json.dumps(entries))
    return str(path)


def test_script_of_its_prompt_is_played(scripts: str) -> None:
    made = play(adapter(script_file=scripts), EngineRequest(1, (1,), 100, end_ids=(2,)))
    assert made == {1: ([10, 11, 12], "stop")}


def test_end_token_in_a_script_ends_it(scripts: str) -> None:
    made = play(adapter(script_file=scripts), EngineRequest(1, (5,), 100, end_ids=(2,)))
    assert made == {1: ([300, -1, 4294967296, 2], "stop")}


def test_limit_ends_a_script(scripts: str) -> None:
    assert play(adapter(script_file=scripts), EngineRequest(1, (1,), 2)) == {1: ([10, 11], "length")}


def test_fault_ends_that_request_only(scripts: str) -> None:
    made = play(adapter(script_file=scripts), EngineRequest(1, (2,), 9), EngineRequest(2, (7,), 2))
    assert made == {1: ([10], "error"), 2: ([7, 7], "length")}


def test_stalled_request_makes_nothing_more(scripts: str) -> None:
    assert play(adapter(script_file=scripts), EngineRequest(1, (3,), 9), seconds=0.2) == {1: ([10], "")}


def test_dead_engine_says_so(scripts: str) -> None:
    with pytest.raises(EngineDiedError):
        play(adapter(script_file=scripts), EngineRequest(1, (4,), 9))


@pytest.mark.parametrize(
    ("token_id", "top", "told"),
    [
        (7, 0, TokenLogprob(0.0, ())),
        (13, 0, TokenLogprob(-0.75, ())),
        (9, 2, TokenLogprob(-0.25, ((7, 0.0), (8, -0.125)))),
        (9, 3, TokenLogprob(-0.25, ((7, 0.0), (8, -0.125), (9, -0.25)))),
    ],
)
def test_log_probabilities_follow_from_the_id(token_id: int, top: int, told: TokenLogprob) -> None:
    assert token_logprob(token_id, top) == told


def test_log_probabilities_come_with_each_id_and_only_when_asked_for(scripts: str) -> None:
    for prompt in ((7, 13), (1,)):
        for top in (None, 0, 2):
            engine = adapter(script_file=scripts)
            engine.submit(EngineRequest(1, prompt, 5, end_ids=(2,), top_logprobs=top))
            deltas = []
            while not (deltas and deltas[-1].finish_reason):
                deltas += engine.take(0.1)
            for delta in deltas:
                told = () if top is None else tuple(token_logprob(token_id, top) for token_id in delta.ids)
                assert delta.logprobs == told
