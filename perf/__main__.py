"""The command line of the benchmarks: `python -m perf`. Runs on the load host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ensemble_repo.settings import SettingError
from perf.engine_choice import REAL_ENGINES, engine_choice
from perf.load.command import LengthsType, load_options, numbers
from perf.locust_run import locust_options
from perf.soak.command import soak_options
from tritone.errors import TritoneError


def counts(context: click.Context, parameter: click.Parameter, value: str | None) -> list[int] | None:
    """Positive whole numbers, each once, separated by commas."""
    texts = value.split(",") if value is not None else []
    for text in texts:
        if not text.strip().isdecimal() or int(text) == 0:
            raise click.BadParameter(f"expected whole numbers above 0, separated by commas, got {text!r}")
    numbers = [int(text) for text in texts]
    if len(set(numbers)) < len(numbers):
        raise click.BadParameter(f"expected each number once, got {value!r}")
    return numbers or None


OUT = click.option("--out", type=click.Path(path_type=Path), help="Result folder.  [default: results/VERB-TIME]")
SEED = click.option("--seed", type=int, default=0, show_default=True, help="Seed of lengths and prompts.")
ROUNDS = click.option(
    "--rounds", type=click.IntRange(1), default=3, show_default=True, help="Rounds; medians are shown."
)


def engine_options(command: Any) -> Any:
    """The options that say which engine runs the bundled model."""
    options = (
        click.option("--engine", type=click.Choice(REAL_ENGINES), default="openvino", show_default=True),
        click.option(
            "--engine-env",
            type=click.Path(path_type=Path, exists=True, file_okay=False),
            help="Virtual environment with the engine's libraries.  [default: .venv-vllm for vllm and transformers, if "
            "it is there]",
        ),
        click.option(
            "--set", "assignments", multiple=True, metavar="NAME=VALUE", help="A setting of the engine, for both sides."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group()
def main() -> None:
    """Measure engines, servers and what serving costs.

    Every figure comes with its raw samples and a report to look at, in the result folder.
    """


@main.command(name="load")
@load_options
def load_verb(**options: Any) -> None:
    """Put a load on any endpoint: Triton's generate_stream or gRPC, or OpenAI's API, anyone's."""
    from perf.load.command import load

    _run(load, {"options": options})


@main.command()
@click.option(
    "--streams", callback=counts, metavar="N,N,...", help="Streams at once.  [default: 64,128 and, at 100 tokens/s, 1]"
)
@click.option("--rate", type=click.FloatRange(0.001, 1e6), default=500, show_default=True, help="Tokens/s of each.")
@click.option("--tokens", type=click.IntRange(2), default=512, show_default=True, help="Mean length of an answer.")
@click.option("--seconds", type=click.FloatRange(0.1), default=10, show_default=True, help="Length of each run.")
@click.option(
    "--against",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A model repository in NVIDIA's inflight_batcher_llm layout, to compare with.",
)
@ROUNDS
@SEED
@OUT
def pipeline(**options: Any) -> None:
    """The scripted engine through a real Triton, driven by perf_analyzer.

    For one stream it is told, too, how long each token was under way.
    """
    from perf.pipeline import run_pipeline

    _run(run_pipeline, options)


@main.command()
@engine_options
@click.option(
    "--streams", default="1,8,32", show_default=True, callback=counts, metavar="N,N,...", help="Streams at once."
)
@click.option("--tokens", type=click.IntRange(2), default=256, show_default=True, help="Length of every answer.")
@ROUNDS
@SEED
@OUT
def overhead(**options: Any) -> None:
    """The bundled model through the ensemble, against the same engine's bare loop."""
    from perf.overhead import run_overhead

    _run(run_overhead, options)


@main.command()
@engine_options
@click.option(
    "--streams", default="1,8,32", show_default=True, callback=counts, metavar="N,N,...", help="Streams at once."
)
@click.option("--tokens", type=click.IntRange(2), default=128, show_default=True, help="Length of every answer.")
@click.option(
    "--seconds",
    type=click.FloatRange(0.1),
    default=20,
    show_default=True,
    help="Length of a run of the scripted engine.",
)
@click.option(
    "--open-streams",
    type=click.IntRange(0),
    default=1000,
    show_default=True,
    help="Slow streams at once; 0 leaves out.",
)
@ROUNDS
@SEED
@OUT
def gateway(**options: Any) -> None:
    """The OpenAI gateway against the ensemble behind it.

    The bundled model, both ways in turn, with the same client; then the gateway's CPU for a chunk, and very many slow
    streams, with the scripted engine.
    """
    from perf.gateway import run_gateway

    _run(run_gateway, options)


@main.command()
@click.option(
    "--side",
    "sides",
    multiple=True,
    default=("openvino",),
    show_default=True,
    metavar="SIDE",
    help="openvino, vllm or transformers (all of Tritone with that engine), vllm-serve (vLLM's server as it comes), "
    "vllm-serve-tuned (in the environment that Tritone gives vLLM), or NAME=URL,MODEL for any OpenAI server that "
    "takes token ids; to be repeated. Ratios are to the first.",
)
@click.option(
    "--engine-env",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Virtual environment of vllm and transformers.  [default: .venv-vllm, if it is there]",
)
@click.option("--set", "assignments", multiple=True, metavar="ENGINE.NAME=VALUE", help="A setting of an engine.")
@click.option(
    "--streams", default="1,8,32", show_default=True, callback=counts, metavar="N,N,...", help="Streams at once."
)
@click.option("--tokens", type=click.IntRange(2), default=128, show_default=True, help="Length of every answer.")
@ROUNDS
@SEED
@OUT
def compare(sides: tuple[str, ...], engine_env: Path | None, assignments: tuple[str, ...], **options: Any) -> None:
    """Engines and servers next to each other, interleaved: the same model, prompts and client."""
    from perf.compare import run_compare
    from perf.compare_sides import side_specs

    _run(lambda **given: run_compare(side_specs(sides, engine_env, assignments), **given), options)


@main.command()
@locust_options
def locust(**options: Any) -> None:
    """Locust's users that come and go, on any front; its table has a row for every token.

    Exits with 1 when a request has failed.
    """
    from perf.locust_run import run_locust

    _run(run_locust, {"options": options})


@main.command()
@soak_options
def soak(**options: Any) -> None:
    """Hours of mixed load with clients that leave and bad requests, and whether anything of the server grows.

    Exits with 1 if memory, handles, threads or shared memory grow, a request fails, or a stream is left. One that was
    broken off goes on with --resume.
    """
    from perf.soak.command import run_soak

    _run(lambda report, **given: run_soak(given, report), options)


@main.command(name="perf-analyzer")
@click.option("--url", default="127.0.0.1:8001", show_default=True, metavar="HOST:PORT", help="Triton's gRPC address.")
@click.option("--model", required=True, help="The ensemble's name.")
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path, exists=True),
    help="The model's folder, or its tokenizer.json.  [default: the bundled model's]",
)
@click.option("--prompt-tokens", type=LengthsType(), default="128", show_default=True, help="Lengths, as for load.")
@click.option("--output-tokens", type=LengthsType(), default="128", show_default=True, help="Lengths, as for load.")
@click.option(
    "--concurrency", default="1,8,32", show_default=True, callback=numbers, metavar="N,N,...", help="Streams at once."
)
@click.option("--requests", type=click.IntRange(1), help="Requests of each point.  [default: 10 for each stream]")
@SEED
@OUT
def perf_analyzer(**options: Any) -> None:
    """NVIDIA's perf_analyzer with the right arguments for an ensemble that runs, read into the same report."""
    from perf.analyzer_run import run_analyzer

    _run(run_analyzer, options)


def _run(verb: Any, options: dict[str, Any]) -> None:
    try:
        if "engine" in options:
            given = (options.pop(name) for name in ("engine", "engine_env", "assignments"))
            options["engine"] = engine_choice(*given)
        verb(**options, report=click.echo)
    except (TritoneError, SettingError) as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
