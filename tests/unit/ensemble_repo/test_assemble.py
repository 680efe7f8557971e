"""The assembled repository: parsed back, wired, self-contained and the same every time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from ensemble_repo.assemble import assemble
from ensemble_repo.contract import CONTRACT, STAGES, inputs_of, outputs_of
from ensemble_repo.settings import SettingError

SCRIPTED = {"engine": "scripted", "max_model_len": 4096, "vocab_size": 320}


@pytest.fixture
def tokenizer_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    (folder / "tokenizer.json").write_text("{}")
    (folder / "generation_config.json").write_text('{"eos_token_id": 2}')
    (folder / "model.safetensors").write_text("weights")
    return folder


@pytest.fixture
def repository(tmp_path: Path, tokenizer_dir: Path) -> Path:
    assemble(tmp_path / "repository", "m", tokenizer_dir, SCRIPTED)
    return tmp_path / "repository"


def parse(path: Path) -> Any:
    return text_format.Parse(path.read_text("utf-8"), model_config_pb2.ModelConfig())


def parameters(path: Path) -> dict[str, Any]:
    return {name: json.loads(value.string_value) for name, value in parse(path).parameters.items()}


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_every_config_parses_back_and_is_named_after_its_folder(repository: Path) -> None:
    folders = sorted(path.name for path in repository.iterdir())
    assert folders == ["m", "m_engine", "m_postprocess", "m_preprocess"]
    for folder in folders:
        assert parse(repository / folder / "config.pbtxt").name == folder
        assert (repository / folder / "1").is_dir()


def test_ensemble_wires_every_tensor_from_one_producer_to_a_consumer(repository: Path) -> None:
    ensemble = parse(repository / "m" / "config.pbtxt")
    steps = ensemble.ensemble_scheduling.step
    stages = {step.model_name: parse(repository / step.model_name / "config.pbtxt") for step in steps}
    produced = {tensor.name: (tensor.data_type, tuple(tensor.dims)) for tensor in ensemble.input}
    consumed = set()
    for step in steps:
        stage = stages[step.model_name]
        inputs = {tensor.name: (tensor.data_type, tuple(tensor.dims)) for tensor in stage.input}
        outputs = {tensor.name: (tensor.data_type, tuple(tensor.dims)) for tensor in stage.output}
        for name, source in step.input_map.items():
            assert produced[source] == inputs[name], (step.model_name, name)
            consumed.add(source)
        assert set(step.output_map) == set(outputs)
        for name, target in step.output_map.items():
            assert target not in produced, f"two producers of {target}"
            produced[target] = outputs[name]
    for tensor in ensemble.output:
        assert produced[tensor.name] == (tensor.data_type, tuple(tensor.dims))
        consumed.add(tensor.name)
    unread = set(produced) - consumed
    assert unread == set()


def test_stage_after_the_decoupled_engine_reads_only_from_it() -> None:
    # Triton refuses a step fed from both sides of a decoupled model
    assert {tensor.source for tensor in inputs_of("postprocess")} == {"engine"}


def test_names_are_unique_within_each_stage() -> None:
    for stage in STAGES:
        for tensors in (inputs_of(stage), outputs_of(stage)):
            names = [tensor.name for tensor in tensors]
            assert len(names) == len(set(names))
    assert len(CONTRACT) == sum(len(inputs_of(party)) for party in (*STAGES, "client"))


def test_transaction_policies_and_batching(repository: Path) -> None:
    configs = {stage: parse(repository / f"m_{stage}" / "config.pbtxt") for stage in STAGES}
    assert {stage: config.model_transaction_policy.decoupled for stage, config in configs.items()} == {
        "preprocess": False,
        "engine": True,
        "postprocess": True,
    }
    assert configs["postprocess"].instance_group[0].count == 1
    assert {stage: config.HasField("dynamic_batching") for stage, config in configs.items()} == {
        "preprocess": True,
        "engine": False,
        "postprocess": False,
    }
    assert parse(repository / "m" / "config.pbtxt").max_batch_size == 1


def test_settings_are_dealt_to_their_stages(repository: Path) -> None:
    assert parameters(repository / "m_preprocess" / "config.pbtxt")["max_model_len"] == 4096
    engine = parameters(repository / "m_engine" / "config.pbtxt")
    assert (engine["engine"], engine["ack_timeout_s"], engine["tokens_per_second"]) == ("scripted", 5.0, 100.0)
    assert parameters(repository / "m_postprocess" / "config.pbtxt") == {"run_dir": ""}


def test_same_input_gives_the_same_bytes(tmp_path: Path, tokenizer_dir: Path, repository: Path) -> None:
    again = tmp_path / "again"
    assemble(again, "m", tokenizer_dir, dict(reversed(SCRIPTED.items())))
    assert files(again) == files(repository)


def test_repository_stands_alone(repository: Path) -> None:
    assert not [path for path in repository.rglob("*") if path.is_symlink()]
    table = (repository / "m_engine" / "1" / "stream_table.py").read_bytes()
    assert (repository / "m_postprocess" / "1" / "stream_table.py").read_bytes() == table
    assert not list(repository.rglob("__pycache__"))
    assert not list(repository.rglob("*.safetensors"))
    assert (repository / "m_preprocess" / "1" / "tokenizer" / "generation_config.json").is_file()
    assert (repository / "m_postprocess" / "1" / "tokenizer" / "tokenizer.json").is_file()


NEED_LIBRARIES = ("model", "openvino_adapter", "transformers_adapter", "sampling", "static_batch", "vllm_adapter")


@pytest.mark.parametrize("stage", STAGES)
def test_stage_modules_import_without_the_project(repository: Path, stage: str) -> None:
    """As Triton does: the version folder is a package called `1`, and nothing of ours is on the path."""
    folder = repository / f"m_{stage}"
    modules = [path.stem for path in (folder / "1").glob("*.py") if path.stem not in NEED_LIBRARIES]
    lines = ["import sys, importlib", "sys.path = [entry for entry in sys.path if entry not in ('', '.')]"]
    lines += [f"sys.path.append({str(folder)!r})"]
    lines += [f"importlib.import_module('1.{module}')" for module in modules]
    result = subprocess.run([sys.executable, "-I", "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "path", ["/m o d/x", 'a"b', "a\\b", "a,b", "a:b", "$", "${x}", "模型", "a\nb", "a'b", "{", "\x01"]
)
def test_b60_string_setting_survives_the_text_format(tmp_path: Path, tokenizer_dir: Path, path: str) -> None:
    settings = {"engine": "openvino", "max_model_len": 8, "vocab_size": 8, "model_path": path}
    assemble(tmp_path / "r", "m", tokenizer_dir, settings)
    assert parameters(tmp_path / "r" / "m_engine" / "config.pbtxt")["model_path"] == path


def test_b60_missing_settings_are_all_named(tmp_path: Path, tokenizer_dir: Path) -> None:
    with pytest.raises(SettingError, match="missing settings: max_model_len, vocab_size, model_path"):
        assemble(tmp_path / "r", "m", tokenizer_dir, {"engine": "openvino"})
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "模型", "-x", ".hidden", "a" * 129, "a\n"])
def test_bad_model_name_is_refused(tmp_path: Path, tokenizer_dir: Path, name: str) -> None:
    with pytest.raises(SettingError, match="model name: expected letters"):
        assemble(tmp_path / "r", name, tokenizer_dir, SCRIPTED)


def test_folder_in_use_is_not_touched(tmp_path: Path, tokenizer_dir: Path, repository: Path) -> None:
    before = files(repository)
    with pytest.raises(FileExistsError, match="is not empty"):
        assemble(repository, "m", tokenizer_dir, SCRIPTED)
    assert files(repository) == before


def test_missing_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"no tokenizer\.json in"):
        assemble(tmp_path / "r", "m", tmp_path, SCRIPTED)


def test_served_name_is_the_ensembles_to_tell(tmp_path: Path, tokenizer_dir: Path) -> None:
    for number, (settings, served_name) in enumerate([({}, "m"), ({"served_name": "org/модель"}, "org/модель")]):
        repository = tmp_path / str(number)
        assemble(repository, "m", tokenizer_dir, {**SCRIPTED, **settings})
        assert parse(repository / "m" / "config.pbtxt").parameters["served_name"].string_value == served_name
        assert "served_name" not in parse(repository / "m_preprocess" / "config.pbtxt").parameters


VLLM = {"engine": "vllm", "max_model_len": 8, "vocab_size": 8, "model_path": "/m"}


def test_lora_adapters_are_the_ensembles_to_name(tmp_path: Path, tokenizer_dir: Path, repository: Path) -> None:
    assert "lora_names" not in parse(repository / "m" / "config.pbtxt").parameters
    adapters = {"tuned": "/a", "é": "/b"}
    assemble(tmp_path / "r", "m", tokenizer_dir, {**VLLM, "lora_modules": adapters})
    ensemble = parse(tmp_path / "r" / "m" / "config.pbtxt").parameters
    assert json.loads(ensemble["lora_names"].string_value) == ["tuned", "é"]
    assert parameters(tmp_path / "r" / "m_engine" / "config.pbtxt")["lora_modules"] == adapters


def test_an_adapter_may_not_have_the_models_name(tmp_path: Path, tokenizer_dir: Path) -> None:
    for served_name in ("", "org/m"):
        settings = {**VLLM, "lora_modules": {served_name or "m": "/a"}, "served_name": served_name}
        with pytest.raises(SettingError, match=rf"^lora_modules: '{served_name or 'm'}' is the model itself; "):
            assemble(tmp_path / "r", "m", tokenizer_dir, settings)


def test_the_engines_environment_is_tritons_to_enter(tmp_path: Path, tokenizer_dir: Path, repository: Path) -> None:
    assemble(tmp_path / "r", "m", tokenizer_dir, {**SCRIPTED, "engine_env": "/opt/an env"})
    parameters = parse(tmp_path / "r" / "m_engine" / "config.pbtxt").parameters
    assert parameters["EXECUTION_ENV_PATH"].string_value == "/opt/an env"
    for stage in ("preprocess", "postprocess"):
        assert "EXECUTION_ENV_PATH" not in parse(tmp_path / "r" / f"m_{stage}" / "config.pbtxt").parameters
    assert "EXECUTION_ENV_PATH" not in parse(repository / "m_engine" / "config.pbtxt").parameters
    assert "engine_env" not in parse(tmp_path / "r" / "m_preprocess" / "config.pbtxt").parameters


def test_preprocess_instances(tmp_path: Path, tokenizer_dir: Path) -> None:
    assemble(tmp_path / "r", "m", tokenizer_dir, {**SCRIPTED, "preprocess_instances": 3})
    config = parse(tmp_path / "r" / "m_preprocess" / "config.pbtxt")
    assert config.instance_group[0].count == 3
    assert "preprocess_instances" not in config.parameters
