"""`python -m perf overhead`: the bundled model through the ensemble against the same engine alone.

Runs on the load host. Both sides are loaded at once and take turns; the one whose turn it is not waits and must not use
the CPU, which is measured too. In a turn every stream sends one request, all at once.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import product
from pathlib import Path

from perf import metrics
from perf.cpu_sampler import CpuSampler, wait_until_idle
from perf.engine_choice import EngineChoice, adapter_settings
from perf.overhead_report import Turn, plots, summarize, tables
from perf.overhead_sides import Prompts, Side, both_sides
from perf.processes import Memory, memory_of
from perf.prompts import random_ids
from perf.records import Window
from perf.results import Page, ResultFolder, default_folder
from tritone.errors import TritoneError

PROMPT_TOKENS = 64
WARM_UP_TOKENS = 16
ROUNDS_A_LOAD = 2


def run_overhead(
    engine: EngineChoice,
    streams: Sequence[int],
    tokens: int,
    rounds: int,
    seed: int,
    out: Path | None,
    report: Callable[[str], None],
) -> None:
    """Measure, show and keep: the options are those of the command line. Raises TritoneError."""
    model = engine.serve(max(streams))
    results = ResultFolder(out or default_folder("overhead"), seed, engine.python)

    prompts = partial(round_prompts, model.settings["vocab_size"], seed)
    memory: dict[str, Memory] = {}

    @contextmanager
    def loaded() -> Iterator[Sequence[Side]]:
        with both_sides(engine, model, results.path / "bare-engine.log", report) as sides:
            warm_up(sides, prompts(0, max(streams)))
            yield sides
            memory.update({name: found for side in sides for name, found in memory_of(side.processes).items()})

    turns = run_rounds(loaded, streams, rounds, tokens, prompts, results, report)
    settings = {"engine": engine.name, **adapter_settings(model.settings)}
    page = Page(plots(turns, memory))
    results.finish(summarize(turns, memory, settings), tables(turns, memory), report, page)


def run_rounds(
    loaded: Callable[[], AbstractContextManager[Sequence[Side]]],
    streams: Sequence[int],
    rounds: int,
    tokens: int,
    prompts: Callable[[int, int], Prompts],
    results: ResultFolder,
    report: Callable[[str], None],
) -> list[Turn]:
    """Let the sides take turns in every round, each with the same prompts, in the other order each time.

    They are loaded anew for every two rounds: where a process happens to lie in memory is worth some percent for as
    long as it lives.
    """
    turns = []
    for first in range(1, rounds + 1, ROUNDS_A_LOAD):
        with loaded() as sides:
            for count, number in product(streams, range(first, min(first + ROUNDS_A_LOAD, rounds + 1))):
                for side in sides if number % 2 else reversed(sides):
                    turn = take_turn(side, sides, number, prompts(number, count), tokens)
                    keep(turn, results)
                    report(
                        f"round {number} of {rounds}: {side.name}, {count} streams: {turn.tokens_per_s:.1f} tokens/s"
                    )
                    turns.append(turn)
    return turns


def round_prompts(vocab_size: int, seed: int, round_number: int, count: int) -> Prompts:
    """What the streams of a round send; every other round has other prompts."""
    return random_ids(count, PROMPT_TOKENS, vocab_size, random.Random(f"{seed} {round_number} {count}"))


def warm_up(sides: Sequence[Side], prompts: Prompts) -> None:
    """Let every side do what it does only once before anything is measured."""
    for side in sides:
        take_turn(side, sides, 0, prompts, WARM_UP_TOKENS)


def take_turn(side: Side, sides: Sequence[Side], round_number: int, prompts: Prompts, tokens: int) -> Turn:
    """One burst, and the CPU that all sides used meanwhile."""
    wait_until_idle(process for one in sides if one is not side for process in one.processes.values())
    load_average = os.getloadavg()[0]
    with CpuSampler({name: process for one in sides for name, process in one.processes.items()}) as sampler:
        requests = side.burst(prompts, tokens, sampler)
    if [sum(request.tokens) for request in requests] != [tokens] * len(prompts):
        raise TritoneError(f"{side.name}: not every request got {tokens} tokens, so the sides cannot be compared")
    window = metrics.burst_window(requests)
    others = [name for one in sides if one is not side for name in one.processes]
    return Turn(
        side=side.name,
        streams=len(prompts),
        round=round_number,
        load_average=load_average,
        tokens_per_s=metrics.burst_tokens_per_s(requests),
        cores=_cores(sampler, side.processes, window),
        idle_side_cores=_cores(sampler, others, window),
        requests=requests,
        cpu_samples=sampler.samples,
    )


def _cores(sampler: CpuSampler, names: Iterable[str], window: Window) -> float:
    """How many cores were busy with the processes, on average over the window."""
    used_s = sum(metrics.cpu_s_within(sampler.samples[name], window) for name in names)
    return metrics.ratio(used_s * metrics.NS_PER_S, window.end_ns - window.start_ns)


def keep(turn: Turn, results: ResultFolder) -> None:
    """Write the raw samples of a turn."""
    name = {"side": turn.side, "streams": turn.streams, "round": turn.round}
    results.add_requests(name, turn.requests)
    results.add_cpu_samples(name, turn.cpu_samples)
