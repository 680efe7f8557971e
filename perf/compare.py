"""`python -m perf compare`: engines and servers next to each other, with the same model, prompts and client.

Runs on the load host. All are loaded at once and take turns, as in perf/overhead.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from perf.compare_report import plots, summarize, tables
from perf.compare_sides import SideSpec, loaded_sides, vocab_size
from perf.load.report import NOTES
from perf.overhead import round_prompts, run_rounds, warm_up
from perf.overhead_sides import Side
from perf.processes import Memory, memory_of
from perf.results import Page, ResultFolder, default_folder

Report = Callable[[str], None]


def run_compare(
    sides: Sequence[SideSpec],
    streams: Sequence[int],
    tokens: int,
    rounds: int,
    seed: int,
    out: Path | None,
    report: Report,
) -> None:
    """Measure, show and keep: the options are those of the command line. Raises TritoneError."""
    told = {side.name: side.prepare(max(streams)) for side in sides}
    python = next((side.choice.python for side in sides if side.choice and side.choice.environment), None)
    results = ResultFolder(out or default_folder("compare"), seed, python)
    prompts = partial(round_prompts, vocab_size(), seed)
    memory: dict[str, Mapping[str, Memory]] = {}

    @contextmanager
    def loaded() -> Iterator[Sequence[Side]]:
        with loaded_sides(sides, max(streams), results.path, report) as found:
            warm_up(found, prompts(0, max(streams)))
            yield found
            memory.update({side.name: memory_of(side.processes) for side in found})

    turns = run_rounds(loaded, streams, rounds, tokens, prompts, results, report)
    page = Page(plots(turns, memory), notes=NOTES)
    results.finish(summarize(turns, memory, told), tables(turns, memory, told), report, page)
