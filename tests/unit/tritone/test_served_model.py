from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ensemble_repo.settings import SettingError
from tests.toy_tokenizers import byte_level_tokenizer
from tests.unit.tritone.toy_gguf import BYTE_LEVEL, write_toy_gguf
from tests.unit.tritone.toy_safetensors import write_toy_folder
from tritone.config import Config, ConfigError
from tritone.errors import ModelError
from tritone.safetensors_gguf import plan_gguf, write_gguf
from tritone.served_model import ModelFiles, check_settings, find_model, repository_settings

FILES = ModelFiles(Path("/models/tokenizer"), Path("/models/m.gguf"), vocab_size=300, context=64)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "Toy Model"
    folder.mkdir()
    byte_level_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def test_b64_a_name_that_triton_cannot_have_is_served_all_the_same(folder: Path) -> None:
    model = find_model(Config(model=str(folder), engine="scripted", name="org/модель"))
    assert (model.name.startswith("org-"), model.settings["served_name"]) == (True, "org/модель")


def test_settings_for_an_engine_with_weights() -> None:
    config = Config(max_num_seqs=4, kv_cache_gib=2, settings={"device": "CPU"})
    assert repository_settings(config, FILES) == {
        "engine": "openvino",
        "vocab_size": 300,
        "max_model_len": 64,
        "max_num_seqs": 4,
        "kv_cache_gib": 2,
        "model_path": "/models/m.gguf",
        "device": "CPU",
    }


def test_the_context_can_be_made_shorter_but_not_longer() -> None:
    assert repository_settings(Config(max_model_len=32), FILES)["max_model_len"] == 32
    with pytest.raises(ConfigError, match="--max-model-len: the model takes at most 64 tokens, got 65"):
        repository_settings(Config(max_model_len=65), FILES)


@pytest.mark.parametrize(
    ("name", "place"), [("engine", "--engine"), ("model_path", "MODEL"), ("max_model_len", "--max-model-len")]
)
def test_what_has_an_option_is_no_setting(name: str, place: str) -> None:
    with pytest.raises(ConfigError, match=f"settings: {name} is given as {place}"):
        repository_settings(Config(settings={name: 1}), FILES)


def test_settings_are_checked_before_there_is_a_model() -> None:
    check_settings(Config(settings={"ack_timeout_s": 2}))
    with pytest.raises(SettingError, match=r"ack_timout_s \(did you mean ack_timeout_s\?\)"):
        check_settings(Config(settings={"ack_timout_s": 2}))
    with pytest.raises(SettingError, match="ack_timeout_s: expected float, got 'fast'"):
        check_settings(Config(settings={"ack_timeout_s": "fast"}))
    with pytest.raises(SettingError, match="kv_cache_gib"):
        check_settings(Config(engine="scripted", kv_cache_gib=1))


def test_the_scripted_engine_takes_a_tokenizer_alone(folder: Path) -> None:
    model = find_model(Config(engine="scripted", model=str(folder)))
    assert (model.name, model.tokenizer_dir) == ("toy-model", folder)
    assert model.settings == {"engine": "scripted", "vocab_size": 259, "max_model_len": 4096}


def test_the_scripted_engine_reads_a_config_that_is_there(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"vocab_size": 320, "max_position_embeddings": 100}))
    settings = find_model(Config(engine="scripted", model=str(folder))).settings
    assert settings == {"engine": "scripted", "vocab_size": 320, "max_model_len": 100}


@pytest.mark.parametrize("name", ["..", "a/../b", "/etc", "\x1b[31m"])
def test_b64_a_name_that_leaves_its_folder_is_refused_before_anything_is_fetched(name: str) -> None:
    with pytest.raises(ModelError, match="is not allowed"):
        check_settings(Config(name=name))


def test_a_name_is_made_safe(folder: Path) -> None:
    config = Config(engine="scripted", model=str(folder), name="org/模型-7b v1")
    assert find_model(config).name.startswith("org-7b-v1-")
    with pytest.raises(ModelError, match="not allowed"):
        find_model(Config(engine="scripted", model=str(folder), name="a/../b"))


def test_openvino_gets_a_converted_folder_and_the_tokenizer_of_the_first(
    cache: Path, tmp_path: Path, fake_openvino: Callable[[str], None]
) -> None:
    fake_openvino("")
    folder = write_toy_folder(tmp_path / "Toy Model")
    model = find_model(Config(model=str(folder)), lambda what, done, total: None)
    assert (model.name, model.tokenizer_dir, model.settings["vocab_size"]) == ("toy-model", folder, 320)
    converted = Path(model.settings["model_path"])
    assert converted.parent == cache
    assert (converted / "openvino_model.xml").is_file()


def test_openvino_says_what_to_do_with_a_folder_that_it_cannot_read(tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "Toy Model", "GemmaForCausalLM")
    with pytest.raises(ModelError, match=r"is GemmaForCausalLM .*optimum-cli export openvino"):
        find_model(Config(model=str(folder)))


def test_gguf_whose_rope_scaling_openvino_would_leave_out_is_refused(tmp_path: Path) -> None:
    path = write_toy_gguf(tmp_path / "toy.gguf", BYTE_LEVEL, tensors=["rope_freqs.weight"])
    with pytest.raises(ModelError, match=r"toy\.gguf scales its rotary frequencies .* Hugging Face folder instead"):
        find_model(Config(model=str(path), max_model_len=16))
    assert find_model(Config(model=str(path), max_model_len=16, engine="scripted")).name == "toy"


@pytest.mark.parametrize("engine", ["vllm", "transformers"])
def test_engines_of_hugging_face_folders_get_them_as_they_are(tmp_path: Path, engine: str) -> None:
    folder = write_toy_folder(tmp_path / "Toy Model", "GemmaForCausalLM")
    (folder / "openvino_model.xml").touch()
    model = find_model(Config(model=str(folder), engine=engine, engine_env="~/env"))
    assert (model.settings["model_path"], model.tokenizer_dir) == (str(folder), folder)
    assert model.settings["engine_env"] == str(Path.home() / "env")


@pytest.mark.parametrize("engine", ["vllm", "transformers"])
def test_engines_of_hugging_face_folders_get_a_gguf_converted(cache: Path, tmp_path: Path, engine: str) -> None:
    plan, gguf = plan_gguf(write_toy_folder(tmp_path / "toy")), tmp_path / "toy" / "toy.gguf"
    write_gguf(plan, gguf, lambda done: None)
    model = find_model(Config(model=str(gguf), engine=engine), lambda what, done, total: None)
    converted = Path(model.settings["model_path"])
    assert converted.parent == cache
    assert (converted / "model.safetensors").is_file()


@pytest.mark.parametrize("engine", ["vllm", "transformers"])
def test_engines_of_hugging_face_folders_refuse_openvinos(tmp_path: Path, engine: str) -> None:
    folder = write_toy_folder(tmp_path / "toy")
    (folder / "model.safetensors").unlink()
    (folder / "openvino_model.xml").touch()
    with pytest.raises(ModelError, match=f"is an OpenVINO folder, which the {engine} engine does not load"):
        find_model(Config(model=str(folder), engine=engine))
