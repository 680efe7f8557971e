"""`python -m perf gateway --against vllm-serve`: all of Tritone against vLLM's own server, with the same client.

Runs on the load host. Both serve the bundled model by OpenAI's API with the same engine settings; both are loaded at
once and take turns, as in perf/overhead.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil

from perf.engine_choice import EngineChoice, adapter_settings, engine_settings
from perf.gateway_sides import OpenAISide, server_and_gateway
from perf.overhead import round_prompts, run_rounds, warm_up
from perf.overhead_sides import Side
from perf.processes import Memory, memory_of, server_processes, with_children
from perf.results import ResultFolder, default_folder
from perf.two_servers_report import OTHER, OURS, summarize, tables
from perf.vllm_serve import running_vllm, serve_options
from tritone.served_model import ServedModel

Report = Callable[[str], None]


def run_two_servers(
    engine: EngineChoice,
    streams: Sequence[int],
    tokens: int,
    rounds: int,
    seed: int,
    out: Path | None,
    report: Report,
) -> None:
    """Measure, show and keep: the options are those of the command line. Raises TritoneError."""
    model = engine.serve(max(streams), has_prefix_caching=False)
    options = {
        OURS: [f"{name}={json.dumps(value)}" for name, value in adapter_settings(model.settings).items()],
        OTHER: serve_options(engine_settings(model.settings)),
    }
    results = ResultFolder(out or default_folder("gateway"), seed, engine.python)
    prompts = partial(round_prompts, model.settings["vocab_size"], seed)
    memory: dict[str, dict[str, Memory]] = {}

    @contextmanager
    def loaded() -> Iterator[Sequence[Side]]:
        with both_servers(engine, model, max(streams), results.path / f"{OTHER}.log", report) as sides:
            warm_up(sides, prompts(0, max(streams)))
            yield sides
            memory.update({side.name: memory_of(side.processes) for side in sides})

    turns = run_rounds(loaded, streams, rounds, tokens, prompts, results, report)
    results.finish(summarize(turns, memory, options), tables(turns, memory, options), report)


@contextmanager
def both_servers(
    engine: EngineChoice, model: ServedModel, max_num_seqs: int, log: Path, report: Report
) -> Iterator[list[Side]]:
    """Both sides, with every process of each; what vLLM's server says goes to the end of `log`."""
    report("loading vLLM's server")
    with running_vllm(engine, engine_settings(model.settings), log) as vllm:
        report("loading Tritone")
        with server_and_gateway(model, max_num_seqs) as (server, gateway):
            ours = {**server_processes(server.pid, model.name), "gateway": psutil.Process(gateway.pid)}
            yield [
                OpenAISide(OTHER, vllm.url, with_children(OTHER, psutil.Process(vllm.pid))),
                OpenAISide(OURS, gateway.url, ours),
            ]
