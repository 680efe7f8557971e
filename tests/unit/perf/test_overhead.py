"""The sides take turns with the same prompts, and a ratio is one of the same round."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import psutil
import pytest

from perf import overhead, results
from perf.cpu_sampler import CpuSampler
from perf.metrics import NS_PER_S
from perf.overhead import run_rounds
from perf.overhead_report import Overhead, Turn, overheads, summarize, tables
from perf.overhead_sides import Prompts
from perf.processes import Memory
from perf.records import RequestRecord
from perf.results import ResultFolder
from perf.tables import to_text
from tritone.errors import TritoneError


class ScriptedSide:
    """A side whose bursts take a set time."""

    def __init__(self, name: str, seconds: float, is_short: bool = False) -> None:
        self.name = name
        self.processes: Mapping[str, psutil.Process] = {name: psutil.Process(os.getpid())}
        self.seen: list[Prompts] = []
        self._duration_ns = int(seconds * NS_PER_S)
        self._is_short = is_short

    def burst(self, prompts: Prompts, tokens: int, sampler: CpuSampler) -> list[RequestRecord]:
        self.seen.append(prompts)
        start_ns = time.time_ns()
        time.sleep(self._duration_ns / NS_PER_S)
        made = tokens - self._is_short
        return [RequestRecord(start_ns, (start_ns + self._duration_ns,), (made,)) for _ in prompts]


def prompts(round_number: int, count: int) -> Sequence[Sequence[int]]:
    return [[round_number]] * count


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ResultFolder:
    monkeypatch.setattr(
        results,
        "describe_environment",
        lambda seed, engine_python, has_triton: {"command": [], "verb": "overhead", "seed": seed},
    )
    monkeypatch.setattr(overhead, "wait_until_idle", list)
    return ResultFolder(tmp_path / "results", 0)


def test_sides_take_turns_with_the_same_prompts(folder: ResultFolder) -> None:
    bare, ours = ScriptedSide("bare", 1e-3), ScriptedSide("tritone", 2e-3)
    loads = 0

    @contextmanager
    def loaded() -> Iterator[list[ScriptedSide]]:
        nonlocal loads
        loads += 1
        yield [bare, ours]

    turns = run_rounds(loaded, [1, 2], 3, 10, prompts, folder, lambda line: None)
    assert [(turn.side, turn.streams, turn.round) for turn in turns] == [
        ("bare", 1, 1),
        ("tritone", 1, 1),
        ("tritone", 1, 2),
        ("bare", 1, 2),
        ("bare", 2, 1),
        ("tritone", 2, 1),
        ("tritone", 2, 2),
        ("bare", 2, 2),
        ("bare", 1, 3),
        ("tritone", 1, 3),
        ("bare", 2, 3),
        ("tritone", 2, 3),
    ]
    assert bare.seen == ours.seen == [[[1]], [[2]], [[1], [1]], [[2], [2]], [[3]], [[3], [3]]]
    assert loads == 2
    assert turns[4].tokens_per_s == 20_000
    assert turns[5].tokens_per_s == 10_000
    assert len((folder.path / "requests.jsonl").read_text().splitlines()) == 18


def test_other_side_is_idle_before_a_turn_and_both_are_measured(
    folder: ResultFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare, ours = ScriptedSide("bare", 0.05), ScriptedSide("tritone", 0.05)
    waited_for: list[list[psutil.Process]] = []
    monkeypatch.setattr(overhead, "wait_until_idle", lambda processes: waited_for.append(list(processes)))
    found = overhead.take_turn(ours, [bare, ours], 1, [[1]], 4)
    assert waited_for == [[bare.processes["bare"]]]
    assert found.cores == pytest.approx(found.idle_side_cores, abs=0.2)  # both are this process


def test_side_that_makes_fewer_tokens_is_not_compared(folder: ResultFolder) -> None:
    with pytest.raises(TritoneError, match="bare: not every request got 10 tokens"):
        run_rounds(
            lambda: nullcontext([ScriptedSide("bare", 1e-3, is_short=True)]),
            [1],
            1,
            10,
            prompts,
            folder,
            lambda line: None,
        )


def turn(side: str, number: int, tokens_per_s: float, idle: float = 0.0) -> Turn:
    start_ns = number * NS_PER_S
    request = RequestRecord(start_ns, tuple(start_ns + ms * 10**6 for ms in (9, 30, 50, 90)), (0, 1, 2, 5))
    return Turn(side, 8, number, 0.1, tokens_per_s, 1.5, idle, [request], {})


TURNS = [
    turn("bare", 1, 100.0),
    turn("tritone", 1, 98.0),
    turn("tritone", 2, 99.0, idle=0.25),
    turn("bare", 2, 110.0),
    turn("bare", 3, 105.0),
    turn("tritone", 3, 100.8),
]


def test_ratio_is_the_median_of_the_rounds_ratios() -> None:
    assert overheads(TURNS) == {8: Overhead(105.0, 99.0, 0.96, 0.9, 0.98, 30.0, 20.0, 0.25)}


def test_summary_and_tables() -> None:
    memory = {"bare engine": Memory(434.0, 385.0), "server": Memory(41.0, None)}
    summary = json.loads(json.dumps(summarize(TURNS, memory, {"engine": "vllm", "max_num_seqs": 8})))
    assert summary["engine"] == {"engine": "vllm", "max_num_seqs": 8}
    assert summary["medians"][0]["ratio"] == 0.96
    assert [entry["tokens_per_s"] for entry in summary["turns"]] == [100.0, 98.0, 99.0, 110.0, 105.0, 100.8]
    ratios, resident = (to_text(table).split("\n") for table in tables(TURNS, memory))
    assert ratios[2].split() == ["8", "105", "99", "0.96", "0.9", "0.98", "30", "20", "0.25"]
    assert [line.split() for line in resident[2:]] == [["bare", "engine", "434", "385"], ["server", "41", "-"]]
