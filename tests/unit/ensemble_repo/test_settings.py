"""Settings: unknown, missing and wrong ones fail by name."""

from __future__ import annotations

import dataclasses

import pytest

from engine.settings import EngineSettings
from ensemble_repo.assemble import stage_parameters
from ensemble_repo.settings import (
    ADAPTERS,
    ENGINE,
    POSTPROCESS,
    PREPROCESS,
    REQUIRED,
    Setting,
    SettingError,
    check_settings,
)
from postprocess.settings import PostprocessSettings
from preprocess.settings import PreprocessSettings

TABLE = (
    Setting("rate", float, REQUIRED, "", 0, 10),
    Setting("count", int, 4, "", 1),
    Setting("mode", str, "a", "", choices=("a", "b")),
    Setting("is_on", bool, True, ""),
)


def test_defaults_complete_what_is_given() -> None:
    assert check_settings({"rate": 2}, TABLE) == {"rate": 2.0, "count": 4, "mode": "a", "is_on": True}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "missing settings: rate"),
        ({"rate": 1, "cuont": 2, "zzz": 1}, r"unknown settings: cuont \(did you mean count\?\), zzz; known are rate"),
        ({"rate": "1"}, "rate: expected float, got '1'"),
        ({"rate": 11}, "rate: expected 0 to 10, got 11"),
        ({"rate": float("nan")}, "rate: expected 0 to 10, got nan"),
        ({"rate": True}, "rate: expected float, got True"),
        ({"rate": 1, "count": 0}, "count: expected at least 1, got 0"),
        ({"rate": 1, "count": 1.0}, r"count: expected int, got 1\.0"),
        ({"rate": 1, "count": ""}, "count: expected int, got ''"),
        ({"rate": 1, "mode": "c"}, "mode: expected one of a, b, got 'c'"),
        ({"rate": 1, "is_on": 1}, "is_on: expected bool, got 1"),
        ({"rate": 1, "mode": "${mode}"}, "mode: expected one of a, b"),
    ],
)
def test_wrong_ones_are_named(given: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        check_settings(given, TABLE)


def names(table: tuple[Setting, ...]) -> set[str]:
    return {setting.name for setting in table}


def test_stages_read_what_is_assembled() -> None:
    preprocess = {field.name for field in dataclasses.fields(PreprocessSettings)}
    assert names(PREPROCESS) | {"tokenizer_dir", "max_prompt_chars"} == preprocess
    assert names(ENGINE) | {"adapter"} == {field.name for field in dataclasses.fields(EngineSettings)}
    assert names(POSTPROCESS) == {field.name for field in dataclasses.fields(PostprocessSettings)}


def test_another_engine_setting_is_refused() -> None:
    with pytest.raises(SettingError, match="unknown settings: tokens_per_second"):
        stage_parameters({"engine": "openvino", "model_path": "m", "tokens_per_second": 1.0})


def test_unknown_engine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingError, match=f"engine: expected one of {', '.join(ADAPTERS)}, got 'vllm2'"):
        stage_parameters({"engine": "vllm2", "max_model_len": 8, "vocab_size": 8})


@pytest.mark.parametrize("engine", sorted(ADAPTERS))
def test_adapter_takes_its_settings(engine: str) -> None:
    model = {"model_path": "x"} if "model_path" in names(ADAPTERS[engine]) else {}
    parameters = stage_parameters({"engine": engine, "max_model_len": 8, "vocab_size": 8, **model})
    assert set(parameters["engine"]) == names(ENGINE) | names(ADAPTERS[engine])


def test_an_open_ended_engine_checks_other_names_itself() -> None:
    settings = {"engine": "vllm", "model_path": "m", "max_model_len": 8, "vocab_size": 8, "dtype": "bfloat16"}
    parameters = stage_parameters(settings)
    assert parameters["engine"]["dtype"] == "bfloat16"
    assert parameters["engine"]["max_model_len"] == parameters["preprocess"]["max_model_len"] == 8
    assert "dtype" not in parameters["preprocess"]
