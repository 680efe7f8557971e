"""The two sides of the overhead benchmark: the ensemble with OpenVINO, and OpenVINO alone. Run on the load host."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import psutil

from ensemble_repo.assemble import assemble, stage_parameters
from ensemble_repo.settings import ADAPTERS
from perf.analyzer import Load, run_load
from perf.bare_engine import BareEngine, bare_engine
from perf.cpu_sampler import CpuSampler
from perf.export import cumulative
from perf.processes import server_processes
from perf.records import RequestRecord
from perf.server import RunningServer, running_server
from tritone.bundled_model import BUNDLED_NAME
from tritone.model_folder import ModelFolder

TURN_TIMEOUT_S = 600.0

PIPELINE_SETTINGS = [setting.name for setting in ADAPTERS["openvino"] if setting.name != "streaming_cpu_share"]

Prompts = Sequence[Sequence[int]]


class Side(Protocol):
    """A loaded engine, with or without an ensemble around it."""

    name: str
    processes: Mapping[str, psutil.Process]

    def burst(self, prompts: Prompts, tokens: int, sampler: CpuSampler) -> list[RequestRecord]:
        """Send all prompts at once; exactly `tokens` tokens, chosen greedily, are made for each."""


class BareSide:
    """OpenVINO alone."""

    name = "bare"

    def __init__(self, engine: BareEngine) -> None:
        self.processes: Mapping[str, psutil.Process] = {"bare engine": psutil.Process(engine.pid)}
        self._engine = engine

    def burst(self, prompts: Prompts, tokens: int, sampler: CpuSampler) -> list[RequestRecord]:
        """See Side."""
        return self._engine.burst(prompts, tokens)


class EnsembleSide:
    """OpenVINO behind the ensemble, called by perf_analyzer."""

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
def both_sides(model: ModelFolder, max_num_seqs: int) -> Iterator[list[Side]]:
    """Both sides, loaded with the same settings."""
    settings = {
        "engine": "openvino",
        "model_path": str(model.path),
        "max_model_len": model.max_position_embeddings,
        "vocab_size": model.vocab_size,
        "max_num_seqs": max_num_seqs,
        "generation_config": "none",  # neutral, as the bare engine's
    }

    def write(target: Path) -> None:
        assemble(target, BUNDLED_NAME, model.tokenizer_dir, settings)

    parameters = stage_parameters(settings)["engine"]
    with bare_engine({name: parameters[name] for name in PIPELINE_SETTINGS}) as engine, running_server(write) as server:
        yield [BareSide(engine), EnsembleSide(server)]
