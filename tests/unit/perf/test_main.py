"""Options that make no sense are refused by name."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from perf.__main__ import main
from perf.pipeline import points
from perf.runs import Point


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["pipeline", "--streams", "64,x"],
            "'--streams': expected whole numbers above 0, separated by commas, got 'x'",
        ),
        (["pipeline", "--streams", "0"], "'--streams': expected whole numbers above 0, separated by commas, got '0'"),
        (["pipeline", "--streams", ""], "'--streams': expected whole numbers above 0, separated by commas, got ''"),
        (["gateway", "--streams", "8,1,8"], "'--streams': expected each number once, got '8,1,8'"),
        (["gateway", "--open-streams", "-1"], "'--open-streams'"),
        (["overhead", "--streams", "8,1,8"], "'--streams': expected each number once, got '8,1,8'"),
        (["overhead", "--engine", "scripted"], "'--engine'"),
        (["overhead", "--engine-env", "/nowhere"], "'--engine-env'"),
        (["pipeline", "--rate", "0"], "'--rate'"),
        (["pipeline", "--rounds", "0"], "'--rounds'"),
        (["pipeline", "--against", "/nowhere"], "'--against'"),
    ],
)
def test_bad_option_is_named(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize("arguments", [["overhead"], ["gateway"]])
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("max_num_seqs=4", "Error: --set: max_num_seqs is not to be set here"),
        ("4", "Error: --set: must be NAME=VALUE, got '4'"),
        ("kv_cache_dtyp=u8", "Error: unknown settings: kv_cache_dtyp (did you mean kv_cache_dtype?)"),
    ],
)
def test_bad_setting_is_named(arguments: list[str], setting: str, message: str) -> None:
    result = CliRunner().invoke(main, [*arguments, "--set", setting])
    assert result.exit_code == 1
    assert message in result.output


def test_usual_run_has_a_single_stream_for_its_latency() -> None:
    assert points(None, 500.0) == [Point(1, 100.0), Point(64, 500.0), Point(128, 500.0)]
    assert points([1, 8], 100.0) == [Point(1, 100.0), Point(8, 100.0)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--side", "tgi"],
            "--side: expected one of openvino, transformers, vllm, vllm-serve, vllm-serve-tuned, or NAME",
        ),
        (["--side", "a=ftp://h,m"], "or NAME=URL,MODEL, got 'a=ftp://h,m'"),
        (["--side", "vllm", "--side", "vllm"], "--side: each name once"),
        (
            ["--side", "vllm-serve", "--set", "enforce_eager=true"],
            "--set: must be ENGINE.NAME=VALUE with one of vllm, got",
        ),
        (
            ["--side", "openvino", "--set", "vllm.enforce_eager=true"],
            "--set: must be ENGINE.NAME=VALUE with one of openvino",
        ),
        (["--side", "openvino", "--set", "openvino.max_num_seqs=4"], "--set: max_num_seqs is not to be set here"),
    ],
)
def test_bad_side_or_setting_of_a_comparison_is_named(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["compare", *arguments])
    assert result.exit_code == 1
    assert message in result.output
