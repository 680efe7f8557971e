"""Says what the model given to `tritone serve` is, and the facts about it the rest needs. Runs in our process.

Three kinds are accepted: a GGUF file (or a folder with one), an OpenVINO folder, a Hugging Face folder. Nothing is
fetched; what must be made for a model (a tokenizer.json) goes into the cache, never into the user's folder.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from tritone.cache import artifact, files_digest
from tritone.errors import ModelError
from tritone.gguf_folder import cached_gguf_folder
from tritone.gguf_metadata import is_gguf
from tritone.model_limits import ModelLimits, read_limits
from tritone.model_name import default_name

logger = logging.getLogger(__name__)

ModelKind = Literal["gguf", "openvino", "huggingface"]

_ACCEPTED = (
    "accepted are a .gguf file, an OpenVINO folder (openvino_model.xml), or a Hugging Face folder "
    "(config.json and .safetensors files)"
)
# Newer versions need a newer protobuf than tritonclient allows.
_SENTENCEPIECE_ADVICE = " (tokenizer.model is read with `pip install sentencepiece==0.2.0`)"
_COPIED = ("config.json", "generation_config.json", "chat_template.jinja", "chat_template.json")


@dataclass(frozen=True)
class ModelFolder(ModelLimits):
    """A model on disk: its limits, its kind, and a safe default name for Triton.

    `path` is what the engine loads; `tokenizer_dir` has tokenizer.json and the other JSON files of the model.
    """

    kind: ModelKind
    path: Path
    tokenizer_dir: Path
    name: str


def describe_model(path: Path, kinds: Sequence[ModelKind] = ("openvino", "gguf", "huggingface")) -> ModelFolder:
    """What the file or folder `path` is; of a folder that is several things, the first of `kinds`.

    Raises ModelError naming what was found there and what is accepted.
    """
    if not path.exists():
        raise ModelError(f"there is no {path}; {_ACCEPTED}")
    kind, weights = _weights(path, kinds)
    tokenizer_dir = _gguf_tokenizer_dir(weights) if kind == "gguf" else _tokenizer_dir(weights)
    limits = read_limits(tokenizer_dir)
    if not limits.eos_token_ids:
        logger.warning("%s names no end token: answers will run to their length limit", path)
    return ModelFolder(
        **vars(limits),
        kind=kind,
        path=weights.absolute(),
        tokenizer_dir=tokenizer_dir.absolute(),
        name=default_name(path),
    )


def _weights(path: Path, kinds: Sequence[ModelKind]) -> tuple[ModelKind, Path]:
    if path.is_file():
        return "gguf", _checked_gguf(path)
    for kind in kinds:
        if weights := _FINDERS[kind](path):
            return kind, weights
    if (path / "config.json").is_file() and any(path.glob("pytorch_model*.bin")):
        raise ModelError(
            f"{path} has its weights as pytorch_model.bin; {_ACCEPTED}: convert it with "
            f"`optimum-cli export openvino --model {path} NEW_FOLDER` and serve NEW_FOLDER"
        )
    raise ModelError(f"{path} has {_content(path)}; {_ACCEPTED}")


def _find_openvino(folder: Path) -> Path | None:
    return folder if (folder / "openvino_model.xml").is_file() else None


def _find_gguf(folder: Path) -> Path | None:
    ggufs = sorted(folder.glob("*.gguf"))
    if len(ggufs) > 1:
        names = ", ".join(file.name for file in ggufs)
        raise ModelError(f"{folder} has {len(ggufs)} GGUF files ({names}): name the one to serve")
    return _checked_gguf(ggufs[0]) if ggufs else None


def _find_huggingface(folder: Path) -> Path | None:
    return folder if (folder / "config.json").is_file() and any(folder.glob("*.safetensors")) else None


_FINDERS: dict[ModelKind, Callable[[Path], Path | None]] = {
    "openvino": _find_openvino,
    "gguf": _find_gguf,
    "huggingface": _find_huggingface,
}


def _checked_gguf(path: Path) -> Path:
    if not is_gguf(path):
        raise ModelError(f"{path} is not a GGUF file; {_ACCEPTED}")
    return path


def _content(folder: Path) -> str:
    names = sorted(entry.name for entry in folder.iterdir())
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"only {shown}" if names else "nothing in it"


def _gguf_tokenizer_dir(gguf: Path) -> Path:
    beside = gguf.parent
    has_all = all((beside / name).is_file() for name in ("tokenizer.json", "config.json"))
    return beside if has_all else cached_gguf_folder(gguf)


def _tokenizer_dir(folder: Path) -> Path:
    if (folder / "tokenizer.json").is_file():
        return folder
    files = sorted(file for file in folder.iterdir() if file.is_file() and "token" in file.name)
    if not files:
        raise ModelError(f"{folder} has no tokenizer.json, nor files to make one from; it has {_content(folder)}")
    return artifact(f"tokenizer-{files_digest(files)}", lambda made: _convert_tokenizer(folder, made))


def _convert_tokenizer(folder: Path, made: Path) -> None:
    sentencepiece_model = folder / "tokenizer.model"
    if sentencepiece_model.is_file() and not (_is_tiktoken(sentencepiece_model) or find_spec("sentencepiece")):
        # transformers would take it for tiktoken's, and make a tokenizer of garbage
        raise ModelError(f"{folder} has no tokenizer.json, and sentencepiece is missing{_SENTENCEPIECE_ADVICE}")
    from transformers import AutoTokenizer  # takes seconds to import, and few models need it

    try:
        AutoTokenizer.from_pretrained(folder, local_files_only=True).save_pretrained(made)
    except Exception as error:  # whatever a tokenizer's own code raises
        raise ModelError(f"{folder} has no tokenizer.json and transformers could not make one: {error}") from error
    if not (made / "tokenizer.json").is_file():
        raise ModelError(f"{folder} has no tokenizer.json and its tokenizer cannot be written as one")
    for name in _COPIED:
        if (folder / name).is_file():
            shutil.copy(folder / name, made / name)


def _is_tiktoken(path: Path) -> bool:
    """Whether the file has tiktoken's lines of base64 and rank, and not sentencepiece's binary model."""
    with path.open("rb") as file:
        first_line = file.readline(1024)
    return re.fullmatch(rb"[A-Za-z0-9+/]+={0,2} [0-9]+\r?\n", first_line) is not None
