"""Model folders for tests: published config.json files, toy ones, and safetensors files that are all header."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from build_engines.checkpoint import Checkpoint, read_checkpoint

CONFIGS = Path(__file__).parent / "configs"


def published(name: str) -> Checkpoint:
    """A model whose weights are not there."""
    return read_checkpoint(CONFIGS / f"{name}.json")


def toy(**changes: Any) -> dict[str, Any]:
    """A small Llama's config.json, changed; None takes a key out."""
    config = {
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 32000,
        "max_position_embeddings": 32768,
        "torch_dtype": "float16",
        **changes,
    }
    return {key: value for key, value in config.items() if value is not None}


def checkpoint(config: dict[str, Any]) -> Checkpoint:
    """A config.json alone."""
    return Checkpoint(config, False, {}, {})


def write_header(file: Path, tensors: dict[str, tuple[str, list[int], int]], missing: int = 0) -> None:
    """A safetensors file with these tensors (dtype, shape, bytes), sparse, less the last `missing` bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with file.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        stream.truncate(8 + len(text) + at - missing)
