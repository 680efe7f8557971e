"""`python -m perf locust`: Locust with the users of perf.locustfile, and our report of what they saw.

Runs on the load host; Locust is a process of its own, as it replaces the standard library's sockets by gevent's.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from perf.load.command import FRONTS_OPTIONS, LengthsType, auth_headers
from perf.load.figures import Point, figures_of, warnings_of
from perf.load.lengths import Lengths
from perf.load.over_time import record_of, slice_seconds, slices, time_plots
from perf.load.record import LoadRecord
from perf.load.report import NOTES, load_plots, load_tables
from perf.load.shapes import SHAPES
from perf.metrics import NS_PER_S
from perf.results import Page, ResultFolder, default_folder
from tritone.errors import TritoneError

USERS = {
    "chat": "ChatUser",
    "completions": "CompletionsUser",
    "generate_stream": "GenerateStreamUser",
    "grpc": "GrpcUser",
}
"""The classes of perf.locustfile by their fronts."""

LOCUSTFILE = Path(__file__).with_name("locustfile.py")
STOP_TIMEOUT_S = 30
FAILED = 1
"""What locust exits with when any request has failed."""


LOCUST_OPTIONS = (
    click.option("--model", required=True, help="The model's name."),
    *FRONTS_OPTIONS,
    click.option("--users", type=click.IntRange(1), default=8, show_default=True, help="Users at once, at most."),
    click.option(
        "--spawn-rate", type=click.FloatRange(0.001), help="Users that come a second.  [default: all at once]"
    ),
    click.option("--run-time", type=click.IntRange(1), default=60, show_default=True, help="Seconds."),
    click.option(
        "--shape",
        type=click.Choice(SHAPES),
        default="constant",
        show_default=True,
        help="How the number of users changes: all of them; more in equal steps; a tenth, and all in the middle third.",
    ),
    click.option("--steps", type=click.IntRange(1), default=5, show_default=True, help="Steps of the shape steps."),
    click.option(
        "--tokenizer",
        type=click.Path(path_type=Path, exists=True),
        help="The model's folder, or its tokenizer.json.  [default: the bundled model's]",
    ),
    click.option("--prompt-tokens", type=LengthsType(), default="128", show_default=True, help="Lengths, as for load."),
    click.option("--output-tokens", type=LengthsType(), default="128", show_default=True, help="Lengths, as for load."),
    click.option(
        "--timeout", "timeout_s", type=click.FloatRange(0.001), default=600, show_default=True, help="Seconds."
    ),
    click.option("--api-key-env", metavar="NAME", help="Environment variable with the key for Authorization: Bearer."),
    click.option("--web", is_flag=True, help="Start from Locust's web page, on loopback; end with Ctrl-C."),
    click.option("--web-port", type=click.IntRange(1, 65535), default=8089, show_default=True),
    click.option("--seed", type=int, default=0, show_default=True, help="Seed of prompts and lengths."),
    click.option("--out", type=click.Path(path_type=Path), help="Result folder.  [default: results/locust-TIME]"),
)


def locust_options(command: Any) -> Any:
    """All options of the verb."""
    for option in reversed(LOCUST_OPTIONS):
        command = option(command)
    return command


def run_locust(options: Mapping[str, Any], report: Callable[[str], None]) -> None:
    """Run Locust, then show and keep what its users saw. Raises TritoneError where it fails, or a request has."""
    if find_spec("locust") is None:
        raise TritoneError("Locust is not installed: pip install 'tritone[perf]'")
    auth_headers(options["api_key_env"])
    results = ResultFolder(options["out"] or default_folder("locust"), options["seed"], has_triton=False)
    command = locust_command(options, results.path)
    if options["web"]:
        page = f"http://127.0.0.1:{options['web_port']}"
        report(f"Locust: {page}, tokens over time: {page}/tokens; Ctrl-C ends it")
    status = _run(command)
    records = read_records(results.path / "requests.jsonl")
    if not records:
        raise TritoneError(f"no request was sent; Locust ended with status {status}")
    _finish(options, records, results, report)
    if status not in (0, FAILED):
        raise TritoneError(f"Locust ended with status {status}")
    if failed := sum(record.error is not None for found in records.values() for record in found):
        raise TritoneError(f"{failed} of {sum(map(len, records.values()))} requests failed")


def locust_command(options: Mapping[str, Any], folder: Path) -> list[str]:
    """The command line of Locust for the options; its own report goes to the folder, too."""
    tokenizer = options["tokenizer"]
    file = tokenizer / "tokenizer.json" if tokenizer and tokenizer.is_dir() else tokenizer
    users = options["users"]
    given = {
        "--locustfile": LOCUSTFILE,
        "--host": options["url"],
        "--triton-url": options["triton_url"],
        "--grpc-url": options["grpc_url"],
        "--model": options["model"],
        "--users": users,
        "--spawn-rate": options["spawn_rate"] or users,
        "--run-time": f"{options['run_time']}s",
        "--load-shape": options["shape"],
        "--steps": options["steps"],
        "--prompt-tokens": lengths_text(options["prompt_tokens"]),
        "--output-tokens": lengths_text(options["output_tokens"]),
        "--tokenizer-file": file or "",
        "--answer-timeout": options["timeout_s"],
        "--api-key-env": options["api_key_env"] or "",
        "--seed": options["seed"],
        "--records": folder / "requests.jsonl",
        "--html": folder / "locust.html",
        "--csv": folder / "locust",
    }
    how = (
        ["--web-host", "127.0.0.1", "--web-port", str(options["web_port"])]
        if options["web"]
        else ["--headless", "--stop-timeout", str(STOP_TIMEOUT_S)]
    )
    classes = [USERS[front] for front in options["fronts"]]
    return [sys.executable, "-m", "locust", *(f"{name}={value}" for name, value in given.items()), *how, *classes]


def lengths_text(lengths: Lengths) -> str:
    """As parse_lengths reads them."""
    return ",".join(f"{span.low}-{span.high}:{span.weight:g}" for span in lengths.spans)


def _run(command: Sequence[str]) -> int:
    """Run to the end, which Ctrl-C and SIGTERM ask for."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)  # our Ctrl-C is not its own
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                process.send_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGTERM, before)
        process.kill()


def read_records(file: Path) -> dict[str, list[LoadRecord]]:
    """The requests of each front."""
    found: dict[str, list[LoadRecord]] = {}
    for line in file.read_text("utf-8").splitlines() if file.exists() else []:
        row = json.loads(line)
        found.setdefault(row["front"], []).append(record_of(row))
    return found


def _finish(
    options: Mapping[str, Any],
    records: Mapping[str, Sequence[LoadRecord]],
    results: ResultFolder,
    report: Callable[[str], None],
) -> None:
    point = Point("users", options["users"])
    sides = {front: [(point, found, figures_of(point, found, {}, None))] for front, found in records.items()}
    everything = sorted((record for found in records.values() for record in found), key=lambda one: one.ended_ns)
    start_ns = min(record.sent_ns for record in everything)
    seconds = slice_seconds((max(record.ended_ns for record in everything) - start_ns) / NS_PER_S)
    warnings = [
        f"{front}: {warning}" for front, ((_, _, figures),) in sides.items() for warning in warnings_of(figures)
    ]
    page = Page([*time_plots(slices(everything, start_ns, seconds)), *load_plots(sides, {})], warnings, NOTES)
    summary = {
        "target": {name: options[name] for name in ("url", "triton_url", "grpc_url", "model")},
        "shape": options["shape"],
        "points": [{"front": front, **point._asdict(), **figures} for front, ((_, _, figures),) in sides.items()],
    }
    results.finish(summary, load_tables(sides, {}), report, page)
