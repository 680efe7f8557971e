"""What the model's own files say: end tokens, default sampling values, context length, vocabulary size.

End tokens: `eos_token_id` of generation_config.json, else of config.json, else the tokenizer's. Sampling, under
`generation_config: auto`, follows transformers: greedy when `do_sample` is false, or when the file names no sampling
value at all; otherwise the file's values, and neutral ones for what it leaves out.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .sampling import SamplingDefaults, check_value
from .settings import PreprocessSettings

logger = logging.getLogger(__name__)

_SAMPLING_KEYS = ("temperature", "top_k", "top_p", "min_p")


@dataclass(frozen=True, slots=True)
class ModelDefaults:
    """eos_ids: ids that end an answer; max_model_len and vocab_size in tokens; sampling: values for silent clients."""

    eos_ids: tuple[int, ...]
    max_model_len: int
    vocab_size: int
    sampling: SamplingDefaults


def load_model_defaults(
    settings: PreprocessSettings, tokenizer_vocab_size: int, tokenizer_eos: int | None
) -> ModelDefaults:
    """Read config.json and generation_config.json of the model folder, both optional.

    Raises ValueError naming the key for a value that cannot be used, or if nothing gives the context length.
    """
    folder = Path(settings.tokenizer_dir)
    config = _read(folder / "config.json")
    config = {**config, **config.get("text_config", {})}
    generation = _read(folder / "generation_config.json")
    vocab_size = settings.vocab_size or config.get("vocab_size") or tokenizer_vocab_size
    return ModelDefaults(
        eos_ids=_eos_ids(generation, config, tokenizer_eos, vocab_size),
        max_model_len=_context_length(settings, config),
        vocab_size=vocab_size,
        sampling=_sampling(generation) if settings.generation_config == "auto" else SamplingDefaults(),
    )


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return content


def _eos_ids(
    generation: dict[str, Any], config: dict[str, Any], tokenizer_eos: int | None, vocab_size: int
) -> tuple[int, ...]:
    candidates = (generation.get("eos_token_id"), config.get("eos_token_id"), tokenizer_eos)
    found: Any = next((value for value in candidates if value is not None), [])
    ids = tuple(found) if isinstance(found, list) else (found,)
    for token in ids:
        if not isinstance(token, int) or not 0 <= token < vocab_size:
            raise ValueError(f"eos_token_id: got {token!r}, allowed: 0 to {vocab_size - 1}")
    if not ids:
        logger.warning("neither generation_config.json, config.json nor the tokenizer names an end token")
    return ids


def _context_length(settings: PreprocessSettings, config: dict[str, Any]) -> int:
    length = settings.max_model_len or config.get("max_position_embeddings")
    if not isinstance(length, int):
        raise ValueError("max_model_len: not set, and config.json has no max_position_embeddings")
    return length


def _sampling(generation: dict[str, Any]) -> SamplingDefaults:
    keys = (*_SAMPLING_KEYS, "repetition_penalty")
    given = {key: generation[key] for key in keys if generation.get(key) is not None}
    for key, value in given.items():
        try:
            check_value(key, value)
        except (ValueError, TypeError) as error:
            raise ValueError(f"generation_config.json: {error}") from None
    has_sampling = generation.get("do_sample", any(key in given for key in _SAMPLING_KEYS))
    return SamplingDefaults(**given) if has_sampling else SamplingDefaults(**{**given, "temperature": 0.0})
