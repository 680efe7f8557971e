"""The two sides of the overhead benchmark: the ensemble with an engine, and the engine alone. Run on the load host."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

import psutil

from perf.analyzer import Load, run_load
from perf.bare_engine import BareEngine, bare_engine
from perf.cpu_sampler import CpuSampler
from perf.engine_choice import EngineChoice, engine_settings
from perf.export import cumulative
from perf.processes import server_processes, with_children
from perf.records import RequestRecord
from perf.server import RunningServer, running_server, write_repository
from tritone.bundled_model import BUNDLED_NAME
from tritone.served_model import ServedModel

TURN_TIMEOUT_S = 600.0

Prompts = Sequence[Sequence[int]]


class Side(Protocol):
    """A loaded engine, with or without an ensemble around it."""

    name: str
    processes: Mapping[str, psutil.Process]

    def burst(self, prompts: Prompts, tokens: int, sampler: CpuSampler) -> list[RequestRecord]:
        """Send all prompts at once; exactly `tokens` tokens, chosen greedily, are made for each."""


class BareSide:
    """The engine alone."""

    name = "bare"

    def __init__(self, engine: BareEngine) -> None:
        self.processes: Mapping[str, psutil.Process] = with_children("bare engine", psutil.Process(engine.pid))
        self._engine = engine

    def burst(self, prompts: Prompts, tokens: int, sampler: CpuSampler) -> list[RequestRecord]:
        """See Side."""
        return self._engine.burst(prompts, tokens)


class EnsembleSide:
    """The engine behind the ensemble, called by perf_analyzer."""

    name = "tritone"

    def __init__(self, server: RunningServer) -> None:
        self.processes: Mapping[str, psutil.Process] = server_processes(server.pid, BUNDLED_NAME)
        self._url = server.url

    def burst(self, prompts: Prompts, tokens: int, sampler: CpuSampler) -> list[RequestRecord]:
        """See Side."""
        inputs = [
            {
                "input_ids": list(prompt),
                "max_tokens": [tokens],
                "ignore_eos": [True],
                "temperature": [0.0],
                "stream": [True],
            }
            for prompt in prompts
        ]
        load = Load(len(prompts), len(prompts), inputs, TURN_TIMEOUT_S)
        with tempfile.TemporaryDirectory(prefix="tritone-perf-") as folder:
            return run_load(self._url, BUNDLED_NAME, load, cumulative, sampler, Path(folder))


@contextmanager
def both_sides(
    choice: EngineChoice, model: ServedModel, log: Path, report: Callable[[str], None]
) -> Iterator[list[Side]]:
    """Both sides, loaded with the same settings; what the bare engine says goes to the end of `log`."""
    report(f"loading {choice.name} alone")
    with bare_engine(choice, engine_settings(model.settings), log) as engine:
        report(f"loading {choice.name} behind the ensemble")
        with running_server(partial(write_repository, model)) as server:
            yield [BareSide(engine), EnsembleSide(server)]
