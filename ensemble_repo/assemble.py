"""Writes a self-contained model repository: stage folders copied, parameters filled, tokenizer included.

Where it is served nothing of ours needs to be installed. The weights stay where they are; the engine's `model_path`
names them. The same input gives the same bytes.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .config_pbtxt import ensemble_config, stage_config, stage_model, to_text
from .contract import STAGES, Party
from .settings import (
    ADAPTERS,
    ENGINE,
    OPEN_ENDED,
    POSTPROCESS,
    PREPROCESS,
    STAGE_OPTIONS,
    Setting,
    SettingError,
    check_settings,
)

SOURCE = Path(__file__).resolve().parent.parent
MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
)


def assemble(target: Path, model: str, tokenizer_dir: Path, settings: Mapping[str, Any]) -> None:
    """Write the repository for `model` to the folder `target`, which is made and must be empty.

    `settings` are those of ensemble_repo/settings.py, flat. Raises SettingError, or FileExistsError for a `target`
    that is not empty.
    """
    if not MODEL_NAME.fullmatch(model):
        raise SettingError(f"model name: expected letters, digits, '.', '_' and '-', at most 128, got {model!r}")
    parameters = stage_parameters(settings)
    if not (tokenizer_dir / "tokenizer.json").is_file():
        raise SettingError(f"tokenizer folder: no tokenizer.json in {tokenizer_dir}")
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise FileExistsError(f"{target} is not empty")
    instances = {"preprocess": parameters["preprocess"].pop("preprocess_instances")}
    served_name = parameters["preprocess"].pop("served_name") or model
    lora_names = list(parameters["engine"].get("lora_modules", {}))
    if served_name in lora_names:
        raise SettingError(f"lora_modules: {served_name!r} is the model itself; an adapter needs a name of its own")
    environments = {"engine": parameters["preprocess"].pop("engine_env")}
    for stage in STAGES:
        folder = target / stage_model(model, stage)
        _copy_stage(stage, folder / "1")
        config = stage_config(stage, model, parameters[stage], instances.get(stage, 1), environments.get(stage, ""))
        (folder / "config.pbtxt").write_text(to_text(config), "utf-8")
    _copy_tokenizer(tokenizer_dir, target / stage_model(model, "preprocess") / "1" / "tokenizer", TOKENIZER_FILES)
    _copy_tokenizer(tokenizer_dir, target / stage_model(model, "postprocess") / "1" / "tokenizer", TOKENIZER_FILES[:1])
    (target / model / "1").mkdir(parents=True)
    (target / model / "config.pbtxt").write_text(to_text(ensemble_config(model, served_name, lora_names)), "utf-8")


def stage_parameters(settings: Mapping[str, Any]) -> dict[Party, dict[str, Any]]:
    """The flat settings, checked, completed with defaults and dealt out to the stages. Raises SettingError."""
    engine = settings.get("engine")
    adapter = ADAPTERS.get(engine, ()) if isinstance(engine, str) else ()
    known = _unique((*PREPROCESS, *STAGE_OPTIONS, *ENGINE, *adapter, *POSTPROCESS))
    names = {setting.name for setting in known}
    unchecked = {name: value for name, value in settings.items() if engine in OPEN_ENDED and name not in names}
    checked = check_settings({name: value for name, value in settings.items() if name not in unchecked}, known)
    tables = {
        "preprocess": (*PREPROCESS, *STAGE_OPTIONS),
        "engine": (*ENGINE, *adapter),
        "postprocess": POSTPROCESS,
    }
    dealt = {stage: {setting.name: checked[setting.name] for setting in tables[stage]} for stage in STAGES}
    dealt["engine"] |= unchecked
    return dealt


def _unique(settings: tuple[Setting, ...]) -> tuple[Setting, ...]:
    return tuple({setting.name: setting for setting in reversed(settings)}.values())[::-1]


def _copy_stage(stage: Party, target: Path) -> None:
    # symbolic links (the stream table) are followed: the copy must stand alone
    shutil.copytree(SOURCE / stage, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))


def _copy_tokenizer(source: Path, target: Path, names: tuple[str, ...]) -> None:
    target.mkdir()
    for name in names:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
