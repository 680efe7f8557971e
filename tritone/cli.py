"""The command line. Runs in our process; every command imports what it needs only when it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from tritone import __version__
from tritone.config_options import ConfiguredCommand, GatewayCommand, config_from, gateway_config_from
from tritone.errors import TritoneError


class Cli(click.Group):
    """Shows the errors that are meant for the user as one line, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Exits with status 1 for an error."""
        from ensemble_repo.settings import SettingError

        try:
            return super().invoke(ctx)
        except (TritoneError, SettingError) as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=Cli, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="tritone")
def main() -> None:
    """Serve language models on NVIDIA Triton, and talk to them."""


@main.command(cls=ConfiguredCommand, short_help="Serve a model until stopped.")
@click.argument("model", required=False)
def serve(**given: Any) -> None:
    """Serve MODEL until stopped.

    MODEL is a GGUF file, an OpenVINO folder or a Hugging Face folder; without it SmolLM2-135M-Instruct is fetched and
    served as smollm2. Each option can also be given as an environment variable (TRITONE_HTTP_PORT for --http-port) or
    in the file of --config (http_port = 8000); options win over the environment, and that over the file.
    """
    config = config_from(given)
    from tritone.launcher import serve as serve_until_stopped

    sys.exit(serve_until_stopped(config))


@main.command(cls=GatewayCommand, short_help="Serve the OpenAI API for a Triton that runs elsewhere.")
def gateway(**given: Any) -> None:
    """Serve the OpenAI API for a Triton that runs elsewhere, until stopped; `tritone serve` does so by itself.

    Each option can also be given as an environment variable (TRITONE_GATEWAY_MAX_CHOICES for --max-choices) or in the
    file of --config (max_choices = 4). TRITONE_API_KEYS has API keys, with commas between.
    """
    config = gateway_config_from(given)
    from tritone.gateway.server import run
    from tritone.log_format import set_up_logging

    set_up_logging(config.log_format, config.log_level)
    sys.exit(run(config))


@main.command(
    cls=ConfiguredCommand, is_repository_only=True, short_help="Write a model repository to be served elsewhere."
)
@click.argument("model")
@click.argument("out", type=click.Path(path_type=Path))
def assemble(out: Path, **given: Any) -> None:
    """Write the model repository for MODEL to the new folder OUT, to be served elsewhere."""
    config = config_from(given)
    from tritone.assembly import assemble_for_container

    click.echo(assemble_for_container(config, out))


@main.command(short_help="Say what was found on this machine, and what to do.")
def doctor() -> None:
    """Say what was found on this machine and what to do about it; exit with 1 if serving will not work."""
    from tritone.doctor import diagnose
    from tritone.doctor_table import doctor_table

    findings = diagnose()
    click.echo(doctor_table(findings))
    sys.exit(any(finding.status == "fail" for finding in findings))


@main.command(
    short_help="Measure engines, servers and what serving costs.",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> None:
    """Measure engines, servers and what serving costs: `python -m perf`, whose verbs `tritone bench --help` lists."""
    from perf.__main__ import main as benchmarks

    benchmarks(list(arguments), prog_name="tritone bench")


@main.command(
    short_help="Plan engines for a GPU.",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def build(arguments: tuple[str, ...]) -> None:
    """Plan TensorRT-LLM engines: `python -m build_engines`, whose verbs `tritone build --help` lists."""
    from build_engines.command import main as build_engines

    sys.exit(build_engines(list(arguments), prog="tritone build"))


def _chat_options(command: Any) -> Any:
    for option in reversed(
        [
            click.option("--url", default="127.0.0.1:8001", show_default=True, help="The server's gRPC address."),
            click.option("--model", show_default="the only one served", help="The model to talk to."),
            click.option("--system", metavar="TEXT", help="A system message to begin with."),
            click.option(
                "--max-tokens", type=click.IntRange(min=1), show_default="the context's end", help="Longest answer."
            ),
            click.option(
                "--temperature", type=click.FloatRange(min=0), show_default="the model's", help="0 is greedy."
            ),
        ]
    ):
        command = option(command)
    return command


@main.command(short_help="Ask one question.")
@click.argument("question")
@_chat_options
def ask(question: str, **given: Any) -> None:
    """Ask one QUESTION and print the answer as it comes; Ctrl-C cancels it."""
    from tritone.chat import ask_once

    sys.exit(ask_once(question, **given))


@main.command(short_help="Talk with a model.")
@_chat_options
def chat(**given: Any) -> None:
    """Talk with a model. Ctrl-C cancels an answer, /clear forgets the conversation, /exit or Ctrl-D ends it."""
    from tritone.chat import chat_until_done

    chat_until_done(**given)
