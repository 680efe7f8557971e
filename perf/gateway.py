"""`python -m perf gateway`: what the gateway costs on the way to an ensemble.

Runs on the load host, in three parts: the bundled model, both ways taking turns; the CPU for a chunk, with the scripted
engine; and very many slow streams at once, with the scripted engine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from perf.engine_choice import EngineChoice
from perf.gateway_process import peak_rss_mib
from perf.gateway_report import ChunkCost, OpenStreams, chunk_cost, cores, plots, summarize, tables
from perf.gateway_sides import both_ways
from perf.overhead import PROMPT_TOKENS, WARM_UP_TOKENS, keep, round_prompts, run_rounds, take_turn, warm_up
from perf.overhead_report import Turn
from perf.overhead_sides import Side
from perf.processes import memory_of
from perf.prompts import text_of
from perf.results import Page, ResultFolder, default_folder
from tritone.served_model import ServedModel

COST_STREAMS = 32
COST_RATE = 50.0  # tokens/s of each: a chunk each, and cores enough for everything else
SLOW_RATE = 2.0

Report = Callable[[str], None]


def run_gateway(
    engine: EngineChoice,
    streams: Sequence[int],
    tokens: int,
    seconds: float,
    open_streams: int,
    rounds: int,
    seed: int,
    out: Path | None,
    report: Report,
) -> None:
    """Measure, show and keep: the options are those of the command line. Raises TritoneError."""
    model = engine.serve(max(streams), has_prefix_caching=False)  # one engine for both
    results = ResultFolder(out or default_folder("gateway"), seed, engine.python)
    turns = measure_throughput(model, streams, tokens, rounds, seed, results, report)
    cost = measure_chunk_cost(seconds, rounds, results, report)
    many = measure_open_streams(open_streams, seconds, results) if open_streams else None
    results.finish(summarize(turns, cost, many), tables(turns, cost, many), report, Page(plots(turns)))


def measure_throughput(
    model: ServedModel,
    streams: Sequence[int],
    tokens: int,
    rounds: int,
    seed: int,
    results: ResultFolder,
    report: Report,
) -> list[Turn]:
    """The bundled model, both ways in turn."""

    prompts = partial(round_prompts, model.settings["vocab_size"], seed)

    @contextmanager
    def loaded() -> Iterator[Sequence[Side]]:
        report("loading the ensemble")
        with both_ways(model, max(streams)) as sides:
            warm_up(sides, prompts(0, max(streams)))
            yield sides

    return run_rounds(loaded, streams, rounds, tokens, prompts, results, report)


def measure_chunk_cost(seconds: float, rounds: int, results: ResultFolder, report: Report) -> ChunkCost:
    """The gateway's CPU for a chunk, with so many streams that none has to wait for a core."""
    model = EngineChoice("scripted", settings={"tokens_per_second": COST_RATE}).serve(COST_STREAMS)
    with both_ways(model, COST_STREAMS) as sides:
        prompts = [english(model)] * COST_STREAMS
        take_turn(sides[1], sides, 0, prompts, WARM_UP_TOKENS)
        turns = []
        for number in range(1, rounds + 1):
            turns.append(take_turn(sides[1], sides, number, prompts, round(seconds * COST_RATE)))
            keep(turns[-1]._replace(side="chunk cost"), results)
            cost = chunk_cost(turns[-1:])
            report(f"round {number} of {rounds}: {cost.cpu_us_per_chunk:.1f} us of the gateway's CPU for a chunk")
    return chunk_cost(turns)


def measure_open_streams(open_streams: int, seconds: float, results: ResultFolder) -> OpenStreams:
    """Many streams that say little, all open at once. Raises StreamError if one fails or is cut short."""
    model = EngineChoice("scripted", settings={"tokens_per_second": SLOW_RATE}).serve(open_streams)
    with both_ways(model, open_streams) as sides:
        gateway = sides[1]
        pid = gateway.processes["gateway"].pid
        prompts = [english(model)] * open_streams
        take_turn(gateway, sides, 0, prompts[:1], 1)
        before = memory_of(gateway.processes)["gateway"].rss_mib
        turn = take_turn(gateway, sides, 1, prompts, max(2, round(seconds * SLOW_RATE)))
        keep(turn._replace(side="open streams"), results)
        after = memory_of(gateway.processes)["gateway"].rss_mib
        return OpenStreams(open_streams, turn.tokens_per_s, before, peak_rss_mib(pid), after, cores(turn))


def english(model: ServedModel) -> list[int]:
    """A prompt of which every token is text, so that the engine that repeats it says something with each."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(os.fspath(model.tokenizer_dir / "tokenizer.json"))
    ids: list[int] = tokenizer.encode(text_of(PROMPT_TOKENS, model.tokenizer_dir)).ids
    return ids
