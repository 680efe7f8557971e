"""`python -m perf overhead`: a real model through the ensemble against the same engine alone.

Runs on the load host. Both sides are loaded once and take turns; the one whose turn it is not waits and must not use
the CPU, which is measured too. In a turn every stream sends one request, all at once.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from perf import metrics
from perf.cpu_sampler import CpuSampler
from perf.overhead_report import Turn, summarize, tables
from perf.overhead_sides import Prompts, Side, both_sides
from perf.processes import memory_of
from perf.prompts import random_ids
from perf.records import Window
from perf.results import ResultFolder, default_folder
from tritone.bundled_model import bundled_model
from tritone.errors import TritoneError
from tritone.model_folder import describe_model

PROMPT_TOKENS = 64
WARM_UP_TOKENS = 16


def run_overhead(
    streams: Sequence[int],
    tokens: int,
    rounds: int,
    seed: int,
    out: Path | None,
    report: Callable[[str], None],
) -> None:
    """Measure, show and keep: the options are those of the command line. Raises TritoneError."""
    model = describe_model(bundled_model())
    results = ResultFolder(out or default_folder("overhead"), seed)

    def prompts(round_number: int, count: int) -> Prompts:
        return random_ids(count, PROMPT_TOKENS, model.vocab_size, random.Random(f"{seed} {round_number} {count}"))

    with both_sides(model, max(streams)) as sides:
        for side in sides:
            take_turn(side, sides, 0, prompts(0, max(streams)), WARM_UP_TOKENS)
        turns = run_rounds(sides, streams, rounds, tokens, prompts, results, report)
        memory = {name: found for side in sides for name, found in memory_of(side.processes).items()}
    results.finish(summarize(turns, memory), tables(turns, memory), report)


def run_rounds(
    sides: Sequence[Side],
    streams: Sequence[int],
    rounds: int,
    tokens: int,
    prompts: Callable[[int, int], Prompts],
    results: ResultFolder,
    report: Callable[[str], None],
) -> list[Turn]:
    """Let the sides take turns in every round, each with the same prompts, the first one being the other each time."""
    turns = []
    for round_number in range(1, rounds + 1):
        for count in streams:
            for side in sides if round_number % 2 else reversed(sides):
                turn = take_turn(side, sides, round_number, prompts(round_number, count), tokens)
                keep(turn, results)
                report(
                    f"round {round_number} of {rounds}: {side.name}, {count} streams: {turn.tokens_per_s:.1f} tokens/s"
                )
                turns.append(turn)
    return turns


def take_turn(side: Side, sides: Sequence[Side], round_number: int, prompts: Prompts, tokens: int) -> Turn:
    """One burst, and the CPU that the other side used meanwhile."""
    load_average = os.getloadavg()[0]
    with CpuSampler({name: process for one in sides for name, process in one.processes.items()}) as sampler:
        requests = side.burst(prompts, tokens, sampler)
    if [sum(request.tokens) for request in requests] != [tokens] * len(prompts):
        raise TritoneError(f"{side.name}: not every request got {tokens} tokens, so the sides cannot be compared")
    start_ns = min(request.started_ns for request in requests)
    window = Window(start_ns, max(request.received_ns[-1] for request in requests))
    idle_cpu_s = sum(
        metrics.cpu_s_within(sampler.samples[name], window)
        for one in sides
        if one is not side
        for name in one.processes
    )
    return Turn(
        side=side.name,
        streams=len(prompts),
        round=round_number,
        load_average=load_average,
        tokens_per_s=metrics.burst_tokens_per_s(requests),
        idle_side_cores=metrics.ratio(idle_cpu_s * metrics.NS_PER_S, window.end_ns - window.start_ns),
        requests=requests,
        cpu_samples=sampler.samples,
    )


def keep(turn: Turn, results: ResultFolder) -> None:
    """Write the raw samples of a turn."""
    name = {"side": turn.side, "streams": turn.streams, "round": turn.round}
    results.add_requests(name, turn.requests)
    results.add_cpu_samples(name, turn.cpu_samples)
