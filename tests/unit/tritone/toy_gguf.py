"""GGUF files of a few kilobytes, written by the gguf package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

_PRINTABLE = {*range(33, 127), *range(161, 173), *range(174, 256)}
_OTHERS = iter(range(256, 512))
BYTE_ALPHABET = [chr(byte if byte in _PRINTABLE else next(_OTHERS)) for byte in range(256)]
"""GPT-2's character for each byte; so token `byte` of the toy vocabulary is that byte."""

WORDS = ["he", "ll", "hell", "hello", "12", "123", "Ġhello"]
MERGES = ["h e", "l l", "he ll", "hell o", "1 2", "12 3", "Ġ hello"]
SPECIAL = ["<|start|>", "<|end|>", "<think>", "[PAD266]"]
START, END, THINK, PAD_ROW = 263, 264, 265, 266

BYTE_LEVEL: dict[str, Any] = {
    "model": "gpt2",
    "pre": "smollm",
    "tokens": [*BYTE_ALPHABET, *WORDS, *SPECIAL],
    "token_type": [NORMAL] * 263 + [CONTROL, CONTROL, USER_DEFINED, UNUSED],
    "merges": MERGES,
    "bos_token_id": START,
    "eos_token_id": END,
}
"""`tokenizer.ggml.*` of a byte-level model: 256 bytes, seven words, two control tokens, one text token, one unused."""

_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
_PIECES = ["▁", "h", "e", "l", "o", "▁h", "el", "lo", "▁hel", "▁hello"]

SENTENCEPIECE: dict[str, Any] = {
    "model": "llama",
    "tokens": ["<unk>", "<s>", "</s>", *_BYTES, *_PIECES],
    "token_type": [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(_PIECES)],
    "scores": [0.0] * 264 + [-1.0, -2.0, -3.0, -4.0, -5.0],
    "bos_token_id": 1,
    "eos_token_id": 2,
    "unknown_token_id": 0,
}
"""`tokenizer.ggml.*` of a Llama 2 style model; pieces start at 259."""

SIZES: dict[str, Any] = {
    "block_count": 2,
    "context_length": 64,
    "embedding_length": 16,
    "feed_forward_length": 32,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.layer_norm_rms_epsilon": 0.5,
    "rope.freq_base": 1000.0,
}


def write_toy_gguf(
    path: Path,
    tokenizer: dict[str, Any],
    architecture: str = "llama",
    others: dict[str, Any] | None = None,
    without: str = "",
    tensors: Sequence[str] = (),
) -> Path:
    """A model of one small tensor, and of more by name. `others` are whole keys added at the end; the key `without` is
    left out."""
    values = {f"{architecture}.{key}": value for key, value in SIZES.items()}
    values |= {f"tokenizer.ggml.{key}": value for key, value in tokenizer.items()}
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in {**values, **(others or {})}.items():
        if key != without:
            _add(writer, key, value)
    writer.add_tensor("token_embd.weight", np.zeros((len(tokenizer["tokens"]), 16), np.float32))
    for name in tensors:
        writer.add_tensor(name, np.zeros(4, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
    add.get(type(value), writer.add_array)(key, value)
