"""`python -m perf soak`: the options, checked; the soak, begun or resumed; its verdict. Runs on the server's host."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from perf.load.command import FRONTS_OPTIONS, LengthsType, auth_headers, front_url, load_tokenizer
from perf.load.fronts import Target
from perf.load.lengths import parse_lengths
from perf.load.over_time import record_of, slice_seconds, slices, time_plots, time_unit
from perf.load.record import LoadRecord
from perf.load.request import LoadRequest
from perf.load.workload import PromptMaker, synthetic
from perf.locust_run import lengths_text
from perf.plots import Plot, Series
from perf.results import Page, ResultFolder, default_folder
from perf.soak.run import ANSWERED, FAILED, Soaked, SoakPlan, said, sample_of, soak
from perf.soak.verdict import Growth, Sample, growths, problems
from perf.soak.watch import MEASURES, find_server
from perf.tables import Table
from tritone.errors import TritoneError

SETTLE_PART, MOST_SETTLE_S = 0.2, 600.0
SAMPLES = 600

NOTES = (
    "Growth: the median of the slopes between all pairs of samples (Theil-Sen), after a server has settled; a resumed "
    "soak is another segment, and pairs are of one segment. It is a leak if it exceeds its limit with 95 % confidence, "
    "and amounts over all of the time to more than noise would.",
    "Memory: PSS where it may be read (pages shared by several processes are shared out), RSS otherwise.",
    *(f"{name}: at most {one.per_hour:g} {one.unit} an hour." for name, one in MEASURES.items()),
)

SOAK_OPTIONS = (
    click.option(
        "--resume", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Go on with this one."
    ),
    click.option("--model", help="The model's name; needed unless a soak is resumed."),
    *FRONTS_OPTIONS,
    click.option("--hours", type=click.FloatRange(0.001), default=1.0, show_default=True, help="All of its length."),
    click.option("--concurrency", type=click.IntRange(1), default=8, show_default=True, help="Streams at once."),
    click.option(
        "--cancel-share", type=click.FloatRange(0, 1), default=0.15, show_default=True, help="Clients that leave early."
    ),
    click.option(
        "--bad-share", type=click.FloatRange(0, 1), default=0.05, show_default=True, help="Requests to be refused."
    ),
    click.option("--prompt-tokens", type=LengthsType(), default="16-256", show_default=True, help="As for load."),
    click.option("--output-tokens", type=LengthsType(), default="1-256", show_default=True, help="As for load."),
    click.option(
        "--tokenizer",
        type=click.Path(path_type=Path, exists=True),
        help="The model's folder, or its tokenizer.json.  [default: the bundled model's]",
    ),
    click.option(
        "--server-pid",
        "server_pids",
        type=click.IntRange(1),
        multiple=True,
        help="Watch this process and its children; may be repeated.  [default: whoever listens on the first front's "
        "port]",
    ),
    click.option(
        "--settle", "settle_s", type=click.FloatRange(0), help="Seconds not judged.  [default: a fifth, at most 600]"
    ),
    click.option(
        "--timeout", "timeout_s", type=click.FloatRange(0.001), default=600, show_default=True, help="Seconds."
    ),
    click.option("--api-key-env", metavar="NAME", help="Environment variable with the key for Authorization: Bearer."),
    click.option("--seed", type=int, default=0, show_default=True, help="Seed of prompts, lengths and who leaves."),
    click.option("--out", type=click.Path(path_type=Path), help="Result folder.  [default: results/soak-TIME]"),
)


def soak_options(command: Any) -> Any:
    """All options of the verb."""
    for option in reversed(SOAK_OPTIONS):
        command = option(command)
    return command


def run_soak(given: Mapping[str, Any], report: Callable[[str], None]) -> None:
    """Begin or go on, judge, show and keep. Raises TritoneError where it has not passed, or was stopped."""
    folder, options = _resumed(given) if given["resume"] else _begun(given)
    results = ResultFolder(folder, options["seed"], has_triton=False, is_resumed=given["resume"] is not None)
    if not given["resume"]:
        results.add_rows("plan.json", [options])
    earlier = [sample_of(row) for row in _rows(folder / "samples.jsonl")]
    outcomes, errors = Counter[str](), Counter[str]()
    for row in _rows(folder / "requests.jsonl"):
        outcomes[row["outcome"]] += 1
        if row["outcome"] == FAILED:
            errors[f"{row['error'] or 'no token'}: {row['detail'] or ''}"[:80]] += 1
    plan = plan_of(options, given["server_pids"])
    found = soak(plan, earlier, outcomes, errors, results, report)
    settle_s = (
        options["settle_s"] if options["settle_s"] is not None else min(SETTLE_PART * plan.seconds, MOST_SETTLE_S)
    )
    grown = growths(found.samples, settle_s)
    said_problems = problems(grown, found.errors, found.outcomes[ANSWERED], found.streams_left)
    _finish(folder, options, found, grown, said_problems, results, report)
    if said_problems:
        raise TritoneError("the soak has failed: " + "; ".join(said_problems))
    if found.is_stopped:
        raise TritoneError(f"stopped before its end; go on with: python -m perf soak --resume {folder}")
    report("The soak has passed.")


def _begun(given: Mapping[str, Any]) -> tuple[Path, dict[str, Any]]:
    if not given["model"]:
        raise click.UsageError("--model: the model's name is needed")
    if given["cancel_share"] + given["bad_share"] >= 1:
        raise click.UsageError("--cancel-share and --bad-share: nobody is left to be answered")
    options = {name: value for name, value in given.items() if name not in ("resume", "out", "server_pids")}
    for name in ("prompt_tokens", "output_tokens"):
        options[name] = lengths_text(given[name])
    options["tokenizer"] = str(given["tokenizer"].absolute()) if given["tokenizer"] else None
    options["fronts"] = list(given["fronts"])
    return (given["out"] or default_folder("soak")), options


def _resumed(given: Mapping[str, Any]) -> tuple[Path, dict[str, Any]]:
    folder: Path = given["resume"]
    rows = list(_rows(folder / "plan.json"))
    if len(rows) != 1:
        raise TritoneError(f"{folder} is no soak: it has no plan.json")
    for name in ("samples.jsonl", "requests.jsonl"):
        _end_last_line(folder / name)
    return folder, rows[0]


def _end_last_line(file: Path) -> None:
    """Take away a last line that was broken off."""
    if file.exists():
        with file.open("r+b") as lines:
            end = 0
            for line in lines:
                end += len(line) if line.endswith(b"\n") else 0
            lines.truncate(end)


def plan_of(options: Mapping[str, Any], pids: Sequence[int]) -> SoakPlan:
    """Raises TritoneError where there is no server to watch, UsageError for a key that is not there."""
    headers = auth_headers(options["api_key_env"])
    targets = {
        front: Target(front_url(options, front), options["model"], headers, timeout_s=options["timeout_s"])
        for front in options["fronts"]
    }
    tokenizer = load_tokenizer(Path(options["tokenizer"]) if options["tokenizer"] else None)
    prompts, outputs = parse_lengths(options["prompt_tokens"]), parse_lengths(options["output_tokens"])

    def requests(random_source: random.Random) -> Iterator[LoadRequest]:
        return synthetic(PromptMaker(tokenizer, 0, random_source).text, prompts, outputs, random_source)

    seconds = options["hours"] * 3600
    return SoakPlan(
        targets,
        options["concurrency"],
        seconds,
        max(0.5, seconds / SAMPLES),
        options["cancel_share"],
        options["bad_share"],
        requests,
        options["seed"],
        pids or [find_server(_port(next(iter(targets.values())).url))],
        options["model"],
    )


def _port(url: str) -> int:
    parts = urlsplit(url if "://" in url else f"//{url}")
    return parts.port or (443 if parts.scheme == "https" else 80)


def _finish(
    folder: Path,
    options: Mapping[str, Any],
    found: Soaked,
    grown: Sequence[Growth],
    said_problems: Sequence[str],
    results: ResultFolder,
    report: Callable[[str], None],
) -> None:
    summary = {
        "outcomes": dict(found.outcomes),
        "errors": dict(found.errors),
        "seconds": found.samples[-1].at_s,
        "streams_left": found.streams_left,
        "problems": list(said_problems),
        "growth": [one._asdict() for one in grown],
    }
    shown = [one for one in grown if one.measure in ("memory", "shared memory") or one.is_leak or one.first != one.last]
    table = Table(
        "Growth",
        ["process", "measure", "first", "last", "an hour", "surely an hour", "verdict"],
        [
            [one.process, one.measure, one.first, one.last, one.per_hour, one.surely_per_hour, _verdict(one)]
            for one in shown
        ],
    )
    counts = Table("Requests", ["became", "requests"], [[name, count] for name, count in found.outcomes.items()])
    plots = [*_held_plots(found.samples), *_load_plots(folder)]
    report(said(found.outcomes))
    results.finish(summary, [counts, table], report, Page(plots, said_problems, NOTES))


def _verdict(growth: Growth) -> str:
    return "grows" if growth.is_leak else "flat"


def _held_plots(samples: Sequence[Sample]) -> list[Plot]:
    unit, divisor = time_unit(samples[-1].at_s)
    plots = []
    for measure, limit in MEASURES.items():
        lines: dict[str, list[tuple[float, float]]] = {}
        for one in samples:
            for (process, name), value in one.values.items():
                if name == measure:
                    lines.setdefault(process, []).append((one.at_s / divisor, value))
        series = [Series(process, points, process) for process, points in lines.items()]
        plots.append(Plot(measure.capitalize(), f"{unit} from the start", limit.unit, series))
    return plots


def _load_plots(folder: Path) -> list[Plot]:
    ends = [row["ended_ns"] for row in _rows(folder / "requests.jsonl") if row["outcome"] in (ANSWERED, FAILED)]
    if not ends:
        return []
    start_ns = min(ends)
    return time_plots(slices(_in_order(folder), start_ns, slice_seconds((max(ends) - start_ns) / 1e9)))


def _in_order(folder: Path) -> Iterable[LoadRecord]:
    return (record_of(row) for row in _rows(folder / "requests.jsonl") if row["outcome"] in (ANSWERED, FAILED))


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    if file.exists():
        with file.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)
