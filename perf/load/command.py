"""`python -m perf load`: the options, checked, become a target and a plan. Runs on the load host."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from perf.load.arrivals import ARRIVALS
from perf.load.figures import Point
from perf.load.fronts import FRONTS, GRPC, HTTP_FRONTS, Target
from perf.load.lengths import Lengths, parse_lengths
from perf.load.loops import Limit
from perf.load.metrics import SLO_METRICS
from perf.load.request import LoadRequest
from perf.load.run import LoadPlan, run_load
from perf.load.workload import PromptMaker, from_lines, from_sharegpt, from_trace, synthetic
from perf.results import ResultFolder, default_folder
from tritone.errors import TritoneError

REQUESTS_A_STREAM = 10
OPEN_LOOP_S = 30.0

_HOST_PORT = re.compile(r"[^/:\s]+:\d+|\[[0-9a-fA-F:]+\]:\d+")


class LengthsType(click.ParamType):  # type: ignore[type-arg,unused-ignore] # generic in newer versions
    """Lengths as parse_lengths reads them."""

    name = "LENGTHS"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Lengths:
        """See click."""
        try:
            return value if isinstance(value, Lengths) else parse_lengths(value)
        except ValueError as error:
            self.fail(str(error), parameter, context)


def numbers(context: click.Context, parameter: click.Parameter, value: str | None) -> list[float]:
    """Numbers above 0, each once, separated by commas."""
    found = []
    for text in value.split(",") if value is not None else []:
        try:
            number = float(text)
        except ValueError:
            number = 0
        if not 0 < number < float("inf"):
            raise click.BadParameter(f"expected numbers above 0, separated by commas, got {text!r}")
        found.append(number)
    if len(set(found)) < len(found):
        raise click.BadParameter(f"expected each number once, got {value!r}")
    return found


def objectives(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, float]:
    """NAME:MILLISECONDS of SLO_METRICS, each once."""
    found: dict[str, float] = {}
    for text in values:
        name, _, limit = text.partition(":")
        if name not in SLO_METRICS or name in found or not re.fullmatch(r"\d*\.?\d+", limit):
            raise click.BadParameter(
                f"expected NAME:MILLISECONDS, once for each of {', '.join(SLO_METRICS)}, got {text!r}"
            )
        found[name] = float(limit)
    return found


def json_object(context: click.Context, parameter: click.Parameter, value: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        found = json.loads(value)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise click.BadParameter(f"expected a JSON object, got {value!r}")
    return found


def target_options(command: Any) -> Any:
    """What is called, and with what."""
    options = (
        click.option("--url", required=True, metavar="URL", help="http://HOST:PORT, or HOST:PORT for gRPC."),
        click.option("--model", required=True, help="The model's name there."),
        click.option(
            "--tokenizer",
            type=click.Path(path_type=Path, exists=True),
            help="The model's folder, or its tokenizer.json: for prompts of an exact length, and the tokens of servers "
            "that do not tell them.  [default: the bundled model's]",
        ),
        click.option(
            "--prompt-tokens",
            type=LengthsType(),
            default="128",
            show_default=True,
            help="Lengths of prompts: 128, 64-256, or mixed with weights, 64:0.8,2048:0.2.",
        ),
        click.option(
            "--output-tokens",
            type=LengthsType(),
            default="128",
            show_default=True,
            help="Lengths of answers, likewise.",
        ),
        click.option(
            "--shared-prefix",
            type=click.IntRange(0),
            default=0,
            show_default=True,
            help="Tokens that all prompts begin with.",
        ),
        click.option("--prompt-ids", is_flag=True, help="Send token ids instead of text."),
        click.option(
            "--prompts",
            "prompts_file",
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            help='Prompts from a file: lines, or .jsonl with "prompt" and "max_tokens".',
        ),
        click.option(
            "--sharegpt",
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            help="Prompts, and lengths of answers, from a file in ShareGPT's format.",
        ),
        click.option(
            "--ignore-eos/--no-ignore-eos",
            default=True,
            show_default=True,
            help="Let every answer have its full length.",
        ),
        click.option(
            "--extra", default="{}", callback=json_object, metavar="JSON", help="Fields added to every request."
        ),
        click.option(
            "--api-key-env", metavar="NAME", help="Environment variable with the key for Authorization: Bearer."
        ),
        click.option(
            "--timeout",
            "timeout_s",
            type=click.FloatRange(0.001),
            default=600,
            show_default=True,
            help="Most seconds for one answer.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


FRONTS_OPTIONS = (
    click.option(
        "--front",
        "fronts",
        type=click.Choice(FRONTS),
        multiple=True,
        default=("chat",),
        show_default=True,
        help="What is called; may be repeated, each gets an equal part then.",
    ),
    click.option(
        "--url", default="http://127.0.0.1:9000", show_default=True, help="OpenAI's API, for chat and completions."
    ),
    click.option(
        "--triton-url", default="http://127.0.0.1:8000", show_default=True, help="Triton's HTTP, for generate_stream."
    ),
    click.option("--grpc-url", default="127.0.0.1:8001", show_default=True, help="Triton's gRPC, for grpc."),
)
"""Where several fronts of one server are."""


def front_url(options: Mapping[str, Any], front: str) -> str:
    """The address of a front by FRONTS_OPTIONS."""
    names = {"generate_stream": "triton_url", GRPC: "grpc_url"}
    return str(options[names.get(front, "url")])


def auth_headers(name: str | None) -> dict[str, str]:
    """With the key in the environment variable `name`. Raises UsageError where it is not there."""
    if not name:
        return {}
    if not os.environ.get(name):
        raise click.UsageError(f"--api-key-env: the environment has no {name}")
    return {"authorization": f"Bearer {os.environ[name]}"}


LOAD_OPTIONS = (
    click.option(
        "--front",
        type=click.Choice(FRONTS),
        default="chat",
        show_default=True,
        help="chat and completions: OpenAI's API, anyone's; generate_stream and grpc: Triton's.",
    ),
    click.option(
        "--concurrency", callback=numbers, metavar="N,N,...", help="Closed loop: streams at once.  [default: 1,8,32]"
    ),
    click.option("--request-rate", callback=numbers, metavar="R,R,...", help="Open loop: requests/s."),
    click.option(
        "--trace",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="Open loop: replay a .jsonl trace (timestamp in ms, input_length or prompt, output_length).",
    ),
    click.option(
        "--arrivals", type=click.Choice(ARRIVALS), default="poisson", show_default=True, help="Of an open loop."
    ),
    click.option(
        "--burstiness",
        type=click.FloatRange(0.001),
        default=1.0,
        show_default=True,
        help="Shape of gamma arrivals: below 1 they come in bursts.",
    ),
    click.option("--requests", type=click.IntRange(1), help="Requests of each point.  [default: 10 for each stream]"),
    click.option("--seconds", type=click.FloatRange(0.1), help="Or how long requests are sent for.  [open loop: 30]"),
    click.option(
        "--warm-up",
        type=click.IntRange(0),
        default=2,
        show_default=True,
        help="Requests before each point, not counted.",
    ),
    click.option(
        "--slo",
        "slo_ms",
        multiple=True,
        callback=objectives,
        metavar="NAME:MS",
        help="An objective for goodput: ttft, itl (the longest), tpot or e2e; may be repeated.",
    ),
    click.option(
        "--server-pid",
        "server_pids",
        type=click.IntRange(1),
        multiple=True,
        help="Watch the CPU and memory of a process here and its children; may be repeated.",
    ),
    click.option("--metrics-url", help="Prometheus address to read queue times from."),
    click.option("--seed", type=int, default=0, show_default=True, help="Seed of prompts, lengths and arrivals."),
    click.option("--out", type=click.Path(path_type=Path), help="Result folder.  [default: results/load-TIME]"),
)


def load_options(command: Any) -> Any:
    """All options of the verb."""
    for option in reversed(LOAD_OPTIONS):
        command = option(command)
    return target_options(command)


def load(options: Mapping[str, Any], report: Callable[[str], None]) -> None:
    """Check the options against each other, measure, show and keep. Raises TritoneError or UsageError."""
    target, plan = target_of(options), plan_of(options)
    results = ResultFolder(options["out"] or default_folder("load"), options["seed"], has_triton=False)
    run_load(target, plan, results, report)


def target_of(options: Mapping[str, Any]) -> Target:
    """Raises UsageError for an address of the wrong kind, or a key that is not there."""
    url = options["url"]
    if options["front"] == GRPC and not _HOST_PORT.fullmatch(url):
        raise click.UsageError(f"--url: expected HOST:PORT for gRPC, got {url!r}")
    if options["front"] in HTTP_FRONTS and not re.match(r"https?://[^/]", url):
        raise click.UsageError(f"--url: expected http://HOST:PORT or https://, got {url!r}")
    return Target(
        url,
        options["model"],
        auth_headers(options["api_key_env"]),
        options["extra"],
        ignore_eos=options["ignore_eos"],
        timeout_s=options["timeout_s"],
    )


def plan_of(options: Mapping[str, Any]) -> LoadPlan:
    """Raises TritoneError for files that cannot be used, UsageError for options that exclude each other."""
    _exclude(options, "concurrency", "request_rate", "trace")
    _exclude(options, "prompts_file", "sharegpt", "trace")
    ids = options["prompt_ids"]
    if ids and (options["front"] == "chat" or options["prompts_file"] or options["sharegpt"]):
        raise click.UsageError("--prompt-ids: a chat and prompts from files are text")
    if options["trace"] and (options["requests"] or options["seconds"]):
        raise click.UsageError("--trace: is replayed whole, without --requests or --seconds")
    tokenizer = load_tokenizer(options["tokenizer"])

    def count_tokens(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    def make(random_source: random.Random) -> Callable[[int], Any]:
        maker = PromptMaker(tokenizer, options["shared_prefix"], random_source)
        return maker.ids if ids else maker.text

    def requests(random_source: random.Random) -> Iterator[LoadRequest]:
        outputs = options["output_tokens"]
        if options["prompts_file"]:
            return from_lines(options["prompts_file"], outputs, random_source)
        if options["sharegpt"]:
            return from_sharegpt(options["sharegpt"], count_tokens, outputs, random_source)
        return synthetic(make(random_source), options["prompt_tokens"], outputs, random_source)

    points = points_of(options)
    trace = from_trace(options["trace"], make(random.Random(options["seed"]))) if options["trace"] else []
    if not trace:
        next(requests(random.Random(options["seed"])))  # what is wrong with a file or a length is said now
    return LoadPlan(
        front=options["front"],
        points=points,
        limit=partial(limit_of, options),
        warm_up=options["warm_up"],
        requests=requests,
        trace=trace,
        arrivals=options["arrivals"],
        burstiness=options["burstiness"],
        slo_ms=options["slo_ms"],
        seed=options["seed"],
        count_tokens=count_tokens if options["tokenizer"] else None,
        server_pids=options["server_pids"],
        metrics_url=options["metrics_url"],
    )


def points_of(options: Mapping[str, Any]) -> list[Point]:
    """The loads, in the order they were given."""
    if options["trace"]:
        return [Point("trace", 1)]
    if options["request_rate"]:
        return [Point("request_rate", rate) for rate in options["request_rate"]]
    streams = options["concurrency"] or [1.0, 8.0, 32.0]
    if any(count != int(count) for count in streams):
        raise click.UsageError(f"--concurrency: expected whole numbers, got {', '.join(f'{one:g}' for one in streams)}")
    return [Point("concurrency", count) for count in streams]


def limit_of(options: Mapping[str, Any], point: Point) -> Limit:
    """When a point ends."""
    if options["requests"] or options["seconds"]:
        return Limit(options["requests"], options["seconds"])
    if point.kind == "concurrency":
        return Limit(REQUESTS_A_STREAM * int(point.value), None)
    return Limit(None, None if point.kind == "trace" else OPEN_LOOP_S)


def _exclude(options: Mapping[str, Any], *names: str) -> None:
    given = [f"--{name.removesuffix('_file').replace('_', '-')}" for name in names if options[name]]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} exclude each other")


def load_tokenizer(path: Path | None) -> Any:
    """Of a folder or a tokenizer.json; without one the bundled model's. Raises TritoneError."""
    from tokenizers import Tokenizer

    if path is None:
        from tritone.bundled_model import bundled_model

        path = bundled_model()
    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # tokenizers raises nothing more special
        raise TritoneError(f"{file} is no tokenizer: {error}") from error
