"""Reads a model's limits and special ids out of its Hugging Face JSON files. Runs in our process.

End tokens come from generation_config.json first: chat models name the token that ends an answer there, and config.json
often has only the one that ends a document.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from tritone.errors import ModelError

_CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")


@dataclass(frozen=True)
class ModelLimits:
    """What requests are checked against: lengths in tokens, token ids. None or () where the files say nothing."""

    max_position_embeddings: int | None
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    bos_token_id: int | None


def read_limits(folder: Path) -> ModelLimits:
    """The limits in `folder`'s config.json, generation_config.json, tokenizer_config.json and tokenizer.json.

    Raises ModelError naming the file and key that is missing or wrong.
    """
    config = read_json(folder / "config.json")
    config = {**config, **(config.get("text_config") or {})}  # models that also see or hear nest the language model's
    vocab_size = _count(config, "vocab_size", folder)
    if vocab_size is None:
        raise ModelError(f"{folder / 'config.json'} has no vocab_size")
    contexts = [_count(config, key, folder) for key in _CONTEXT_KEYS]
    return ModelLimits(
        max_position_embeddings=next((context for context in contexts if context is not None), None),
        vocab_size=vocab_size,
        eos_token_ids=_token_ids(folder, config, "eos", vocab_size),
        bos_token_id=next(iter(_token_ids(folder, config, "bos", vocab_size)), None),
    )


def read_json(path: Path, is_optional: bool = False) -> dict[str, Any]:
    """The JSON object in this file; {} if it may be missing and is. Raises ModelError for anything else."""
    if is_optional and not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"there is no {path}") from None
    except ValueError as error:
        raise ModelError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path} holds {type(content).__name__}, not a JSON object")
    return content


def _count(config: dict[str, Any], key: str, folder: Path) -> int | None:
    value = config.get(key)
    if value is not None and (type(value) is not int or value < 1):
        raise ModelError(f"{key} in {folder / 'config.json'} is {value!r}, not a positive integer")
    return value


def _token_ids(folder: Path, config: dict[str, Any], role: str, vocab_size: int) -> tuple[int, ...]:
    """The ids of a role: of generation_config.json, else config.json, else the tokenizer's token of that name."""
    generation = read_json(folder / "generation_config.json", is_optional=True)
    for source, values in (("generation_config.json", generation), ("config.json", config)):
        value = values.get(f"{role}_token_id")
        if value not in (None, []):
            return _checked_ids(value, f"{role}_token_id in {folder / source}", vocab_size)
    return _tokenizer_ids(folder, f"{role}_token")


def _checked_ids(value: Any, where: str, vocab_size: int) -> tuple[int, ...]:
    ids = value if isinstance(value, list) else [value]
    for token_id in ids:
        if type(token_id) is not int or not 0 <= token_id < vocab_size:
            raise ModelError(f"{where} is {value!r}; ids must be integers from 0 to {vocab_size - 1}")
    return tuple(dict.fromkeys(ids))


def _tokenizer_ids(folder: Path, key: str) -> tuple[int, ...]:
    token = read_json(folder / "tokenizer_config.json", is_optional=True).get(key)
    text = token.get("content") if isinstance(token, dict) else token
    if not isinstance(text, str):
        return ()
    token_id = Tokenizer.from_file(str(folder / "tokenizer.json")).token_to_id(text)
    return () if token_id is None else (token_id,)
