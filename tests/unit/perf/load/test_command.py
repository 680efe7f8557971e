"""Options of `python -m perf load` that make no sense are refused by name; the others become a plan."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from perf.__main__ import main
from perf.load.command import load_options, plan_of, target_of
from perf.load.figures import Point
from perf.load.loops import Limit
from tests.toy_tokenizers import byte_level_tokenizer

HTTP = ["--url", "http://127.0.0.1:9", "--model", "m"]


def parsed(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """The options as click gives them, with a toy tokenizer."""
    byte_level_tokenizer().save(str(tmp_path / "tokenizer.json"))
    found: dict[str, Any] = {}

    @click.command()
    @load_options
    def command(**options: Any) -> None:
        found.update(options)

    command(["--model", "m", "--tokenizer", str(tmp_path), *arguments], standalone_mode=False)
    return found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--url", "http://h:1"], "Missing option '--model'"),
        ([*HTTP, "--front", "grpc"], "--url: expected HOST:PORT for gRPC, got 'http://127.0.0.1:9'"),
        (["--url", "h:1", "--model", "m"], "--url: expected http://HOST:PORT or https://, got 'h:1'"),
        ([*HTTP, "--concurrency", "1,x"], "'--concurrency': expected numbers above 0, separated by commas, got 'x'"),
        ([*HTTP, "--concurrency", "1.5"], "--concurrency: expected whole numbers, got 1.5"),
        ([*HTTP, "--request-rate", "0"], "'--request-rate': expected numbers above 0"),
        ([*HTTP, "--request-rate", "2,2"], "'--request-rate': expected each number once"),
        ([*HTTP, "--request-rate", "2", "--concurrency", "1"], "--concurrency and --request-rate exclude each other"),
        ([*HTTP, "--prompt-tokens", "x"], "'--prompt-tokens': expected LENGTH, LOW-HIGH or LENGTH:WEIGHT"),
        ([*HTTP, "--slo", "ttft"], "'--slo': expected NAME:MILLISECONDS, once for each of ttft, itl, tpot, e2e, got"),
        ([*HTTP, "--slo", "ttft:1", "--slo", "ttft:2"], "'--slo': expected NAME:MILLISECONDS, once for each"),
        ([*HTTP, "--extra", "[]"], "'--extra': expected a JSON object, got '[]'"),
        ([*HTTP, "--api-key-env", "NOT_THERE"], "--api-key-env: the environment has no NOT_THERE"),
        ([*HTTP, "--front", "chat", "--prompt-ids"], "--prompt-ids: a chat and prompts from files are text"),
        ([*HTTP, "--front", "tgi"], "'--front': 'tgi' is not one of"),
        ([*HTTP, "--seconds", "0"], "'--seconds'"),
    ],
)
def test_bad_option_is_named(arguments: list[str], message: str, tmp_path: Path) -> None:
    byte_level_tokenizer().save(str(tmp_path / "tokenizer.json"))
    result = CliRunner().invoke(main, ["load", *arguments, "--tokenizer", str(tmp_path)])
    assert result.exit_code == 2
    assert message in result.output


def test_a_file_that_is_no_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    result = CliRunner().invoke(main, ["load", *HTTP, "--tokenizer", str(tmp_path)])
    assert result.exit_code == 1
    assert "is no tokenizer" in result.output


def test_closed_loop_is_the_default(tmp_path: Path) -> None:
    plan = plan_of(parsed(tmp_path, "--url", "http://h:1"))
    assert plan.points == [Point("concurrency", 1), Point("concurrency", 8), Point("concurrency", 32)]
    assert [plan.limit(point) for point in plan.points] == [Limit(10, None), Limit(80, None), Limit(320, None)]
    first = list(islice(plan.requests(random.Random(1)), 3))
    assert [len(str(request.prompt)) for request in first] == [128] * 3
    assert [request.max_tokens for request in first] == [128] * 3


def test_open_loop(tmp_path: Path) -> None:
    options = parsed(tmp_path, "--url", "h:1", "--front", "grpc", "--request-rate", "4,2.5", "--slo", "ttft:200")
    plan = plan_of(options)
    assert plan.points == [Point("request_rate", 4), Point("request_rate", 2.5)]
    assert plan.limit(plan.points[0]) == Limit(None, 30)
    assert plan.slo_ms == {"ttft": 200}
    assert target_of(options).url == "h:1"


def test_trace_is_replayed_whole(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"timestamp": 0, "input_length": 5, "output_length": 3}\n')
    plan = plan_of(parsed(tmp_path, "--url", "http://h:1", "--trace", str(trace)))
    assert plan.points == [Point("trace", 1)]
    assert plan.limit(plan.points[0]) == Limit(None, None)
    assert [len(str(request.prompt)) for request in plan.trace] == [5]
    with pytest.raises(click.UsageError, match="--trace: is replayed whole"):
        plan_of(parsed(tmp_path, "--url", "http://h:1", "--trace", str(trace), "--requests", "4"))


def test_the_key_is_in_the_header_and_nowhere_to_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "secret-1")
    target = target_of(parsed(tmp_path, "--url", "http://h:1", "--api-key-env", "A_KEY"))
    assert target.headers == {"authorization": "Bearer secret-1"}
    assert "secret-1" not in repr(target)


def test_tokens_are_counted_by_a_tokenizer_that_was_named_only(tmp_path: Path) -> None:
    plan = plan_of(parsed(tmp_path, "--url", "http://h:1"))
    assert plan.count_tokens is not None
    assert plan.count_tokens("four") == 4
