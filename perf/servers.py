"""`python -m perf gateway --against vllm-serve`: all of Tritone against vLLM's own server, with the same client.

Runs on the load host. All serve the bundled model by OpenAI's API with the same engine settings; they are loaded at
once and take turns, as in perf/overhead.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from perf.engine_choice import EngineChoice, adapter_settings, engine_settings
from perf.gateway_sides import OpenAISide, server_and_gateway
from perf.overhead import round_prompts, run_rounds, warm_up
from perf.overhead_sides import Side
from perf.processes import Memory, memory_of, server_processes, with_children
from perf.results import ResultFolder, default_folder
from perf.servers_report import OURS, summarize, tables
from perf.vllm_serve import running_vllm, serve_options, variables_of
from tritone.served_model import ServedModel

Report = Callable[[str], None]


def run_servers(
    against: Sequence[str],
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
        **{name: told_to(name, engine_settings(model.settings)) for name in against},
    }
    results = ResultFolder(out or default_folder("gateway"), seed, engine.python)
    prompts = partial(round_prompts, model.settings["vocab_size"], seed)
    memory: dict[str, dict[str, Memory]] = {}

    @contextmanager
    def loaded() -> Iterator[Sequence[Side]]:
        with all_servers(against, engine, model, max(streams), results.path, report) as sides:
            warm_up(sides, prompts(0, max(streams)))
            yield sides
            memory.update({side.name: memory_of(side.processes) for side in sides})

    turns = run_rounds(loaded, streams, rounds, tokens, prompts, results, report)
    results.finish(summarize(turns, memory, options), tables(turns, memory, options), report)


@contextmanager
def all_servers(
    against: Sequence[str], engine: EngineChoice, model: ServedModel, max_num_seqs: int, logs: Path, report: Report
) -> Iterator[list[Side]]:
    """All sides, with every process of each; what vLLM's servers say goes to the end of files in `logs`."""
    with ExitStack() as stack:
        sides: list[Side] = []
        for name in against:
            report(f"loading {name}")
            vllm = stack.enter_context(
                running_vllm(name, engine, engine_settings(model.settings), logs / f"{name}.log")
            )
            sides.append(OpenAISide(name, vllm.url, with_children(name, psutil.Process(vllm.pid))))
        report("loading Tritone")
        server, gateway = stack.enter_context(server_and_gateway(model, max_num_seqs))
        ours = {**server_processes(server.pid, model.name), "gateway": psutil.Process(gateway.pid)}
        yield [*sides, OpenAISide(OURS, gateway.url, ours)]


def told_to(name: str, settings: Mapping[str, Any]) -> list[str]:
    """The environment variables and options of a vLLM server."""
    return [*(f"{variable}={value}" for variable, value in variables_of(name).items()), *serve_options(settings)]
