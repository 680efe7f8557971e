"""Turns the configuration into what `assemble` needs: a name, a tokenizer folder, settings. Runs in our process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ensemble_repo.settings import ADAPTERS
from tritone.bundled_model import BUNDLED_NAME, bundled_model
from tritone.config import Config, ConfigError
from tritone.errors import ModelError
from tritone.gguf_metadata import read_gguf
from tritone.model_folder import describe_model
from tritone.model_limits import read_limits
from tritone.model_name import default_name, triton_name
from tritone.openvino_folder import openvino_folder
from tritone.progress import Progress, show_progress
from tritone.safetensors_folder import safetensors_folder

SCRIPTED_MODEL_LEN = 4096

HAVE_A_PLACE = {
    "engine": "--engine",
    "engine_env": "--engine-env",
    "model_path": "MODEL",
    "max_model_len": "--max-model-len",
    "max_num_seqs": "--max-num-seqs",
    "kv_cache_gib": "--kv-cache-gib",
    "served_name": "--name",
}
"""Settings of the model repository that are not given with --set."""


@dataclass(frozen=True)
class ModelFiles:
    """Where a model's files are, and its limits in tokens; `context` is None where nothing limits it."""

    tokenizer_dir: Path
    weights: Path | None
    vocab_size: int
    context: int | None


@dataclass(frozen=True)
class ServedModel:
    """What `assemble` is given: the name of the ensemble, the tokenizer's folder and the settings, flat."""

    name: str
    tokenizer_dir: Path
    settings: dict[str, Any]


def find_model(config: Config, progress: Progress = show_progress) -> ServedModel:
    """What to serve; the bundled model is fetched, a Hugging Face folder converted if the engine needs that.

    Raises ProvisionError, ModelError, or ConfigError for options that do not fit the model.
    """
    path = Path(config.model).expanduser() if config.model else bundled_model(progress)
    files = _scripted(path) if config.engine == "scripted" else _loadable(path, config.engine, progress)
    return ServedModel(_name(config, path), files.tokenizer_dir, repository_settings(config, files))


def check_settings(config: Config) -> None:
    """Raise SettingError, ConfigError or ModelError for what no model could be served with, before one is fetched."""
    from ensemble_repo.assemble import stage_parameters

    if config.name is not None:
        triton_name(config.name)
    stand_in = ModelFiles(Path(), Path(), vocab_size=1, context=config.max_model_len or SCRIPTED_MODEL_LEN)
    stage_parameters(repository_settings(config, stand_in))


def repository_settings(config: Config, files: ModelFiles) -> dict[str, Any]:
    """The settings of the model repository. Raises ConfigError for one that is given in the wrong place."""
    chosen = {
        "engine": config.engine,
        "engine_env": str(Path(config.engine_env).expanduser().absolute()) if config.engine_env else None,
        "vocab_size": files.vocab_size,
        "max_model_len": _model_len(config, files),
        "max_num_seqs": config.max_num_seqs,
        "kv_cache_gib": config.kv_cache_gib,
        "served_name": config.name,
    }
    if any(setting.name == "model_path" for setting in ADAPTERS[config.engine]):
        chosen["model_path"] = str(files.weights)
    for name, place in HAVE_A_PLACE.items():
        if name in config.settings:
            raise ConfigError(f"settings: {name} is given as {place}, not as a setting")
    return {**{name: value for name, value in chosen.items() if value is not None}, **config.settings}


def _model_len(config: Config, files: ModelFiles) -> int:
    wanted, context = config.max_model_len, files.context
    if wanted is not None and context is not None and wanted > context:
        raise ConfigError(f"--max-model-len: the model takes at most {context} tokens, got {wanted}")
    length = wanted or context or (SCRIPTED_MODEL_LEN if config.engine == "scripted" else None)
    if length is None:
        raise ConfigError("--max-model-len: must be given, because the model's files do not say what it takes")
    return length


def _loadable(path: Path, engine: str, progress: Progress) -> ModelFiles:
    """The model in the form that the engine loads, converted if need be."""
    if engine == "openvino":
        model = describe_model(path)
        if model.kind == "gguf":
            _check_rope(model.path)
        weights = openvino_folder(model.path, progress) if model.kind == "huggingface" else model.path
    else:
        model = describe_model(path, ("huggingface", "gguf", "openvino"))
        if model.kind == "openvino":
            raise ModelError(
                f"{path} is an OpenVINO folder, which the {engine} engine does not load: give it the Hugging Face "
                "folder or the GGUF file of the model"
            )
        is_gguf = model.kind == "gguf"
        weights = safetensors_folder(model.path, model.tokenizer_dir, progress) if is_gguf else model.path
    return ModelFiles(model.tokenizer_dir, weights, model.vocab_size, model.max_position_embeddings)


def _check_rope(gguf: Path) -> None:
    if "rope_freqs.weight" in read_gguf(gguf).tensors:
        raise ModelError(
            f"{gguf} scales its rotary frequencies (rope_freqs.weight), which OpenVINO's GGUF reader leaves out: its "
            "answers would be wrong; serve the model's Hugging Face folder instead"
        )


def _scripted(path: Path) -> ModelFiles:
    """The scripted engine loads nothing: a folder with a tokenizer.json will do."""
    file = path / "tokenizer.json"
    if not file.is_file():
        model = describe_model(path)
        return ModelFiles(model.tokenizer_dir, None, model.vocab_size, model.max_position_embeddings)
    if (path / "config.json").is_file():
        limits = read_limits(path)
        return ModelFiles(path, None, limits.vocab_size, limits.max_position_embeddings)
    from tokenizers import Tokenizer

    return ModelFiles(path, None, Tokenizer.from_file(str(file)).get_vocab_size(), None)


def _name(config: Config, path: Path) -> str:
    if config.name is not None:
        return triton_name(config.name)
    return default_name(path) if config.model else BUNDLED_NAME
