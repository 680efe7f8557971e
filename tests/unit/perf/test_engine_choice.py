"""One choice of an engine gives both sides the same settings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from perf import engine_choice as module
from perf.engine_choice import EngineChoice, adapter_settings, engine_choice, engine_settings
from tritone.config import Config, ConfigError

GIVEN = {"model_path": "/model", "max_model_len": 100, "vocab_size": 10, "max_num_seqs": 4}


@pytest.fixture
def configs(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """What was to be served, instead of a model."""
    found: list[Config] = []
    monkeypatch.setattr(module, "find_tritonserver", lambda: None)
    monkeypatch.setattr(module, "check_engine_env", lambda engine, environment, install: None)
    monkeypatch.setattr(module, "find_model", found.append)
    return found


def test_usual_environment_is_taken_where_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OWN_ENVIRONMENT", {"vllm": tmp_path, "transformers": tmp_path / "missing"})
    assert engine_choice("vllm", None, []).python == tmp_path / "bin" / "python"
    assert engine_choice("vllm", Path("/other"), []).python == Path("/other/bin/python")
    assert engine_choice("transformers", None, []).environment is None
    assert engine_choice("openvino", None, []).python == Path(sys.executable)


def test_settings_are_read_and_those_of_the_benchmark_refused() -> None:
    assert engine_choice("vllm", None, ["enforce_eager=true", "dtype=bfloat16"]).settings == {
        "enforce_eager": True,
        "dtype": "bfloat16",
    }
    with pytest.raises(ConfigError, match="--set: model_path is not to be set here"):
        engine_choice("vllm", None, ["model_path=/x"])


@pytest.mark.parametrize(
    ("engine", "kv_cache_gib", "always", "without_caching"),
    [
        ("openvino", 1, {}, {"enable_prefix_caching": False}),
        ("vllm", 1, {"max_num_batched_tokens": 2048, "dtype": "bfloat16"}, {"enable_prefix_caching": False}),
        ("transformers", None, {}, {}),
    ],
)
def test_what_is_served(
    engine: str,
    kv_cache_gib: int | None,
    always: dict[str, Any],
    without_caching: dict[str, Any],
    configs: list[Config],
    tmp_path: Path,
) -> None:
    EngineChoice(engine, tmp_path).serve(8, has_prefix_caching=False)
    EngineChoice(engine).serve(4)
    without, usual = configs
    assert (without.engine, without.engine_env, without.max_num_seqs) == (engine, str(tmp_path), 8)
    assert without.kv_cache_gib == kv_cache_gib
    assert without.settings == {"generation_config": "none", **always, **without_caching}
    assert (usual.engine_env, usual.settings) == (None, {"generation_config": "none", **always})


def test_users_settings_win(configs: list[Config]) -> None:
    chosen = {"enable_prefix_caching": True, "max_num_batched_tokens": 4096, "dtype": "float32"}
    EngineChoice("vllm", settings=chosen).serve(4, has_prefix_caching=False)
    EngineChoice("scripted", settings={"tokens_per_second": 50.0}).serve(4)
    assert [config.settings for config in configs] == [
        {"generation_config": "none", **chosen},
        {"generation_config": "none", "tokens_per_second": 50.0},
    ]


def test_engine_settings_are_those_of_the_adapter_but_for_what_is_about_requests() -> None:
    given = {**GIVEN, "engine": "vllm", "kv_cache_gib": 1, "enforce_eager": True, "streaming_cpu_share": 0.5}
    expected = {
        "model_path": "/model",
        "max_model_len": 100,
        "max_num_seqs": 4,
        "kv_cache_gib": 1,
        "lora_modules": {},
        "trust_remote_code": False,
        "enforce_eager": True,
    }
    assert engine_settings(given) == expected
    assert adapter_settings(given) == {**expected, "streaming_cpu_share": 0.5}
    assert set(engine_settings({**GIVEN, "engine": "transformers"})) == {
        "model_path",
        "max_num_seqs",
        "dtype",
        "device",
        "trust_remote_code",
    }
