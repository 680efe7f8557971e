"""Hugging Face folders with weights of a few kilobytes. The files are written here, bfloat16 too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.toy_tokenizers import byte_level_tokenizer

Weights = dict[str, npt.NDArray[np.float32]]

HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, HEAD_SIZE, VOCABULARY = 32, 48, 2, 4, 2, 16, 320

CONFIG: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_SIZE,
    "max_position_embeddings": 64,
    "rms_norm_eps": 0.5,
    "rope_theta": 1000.0,
    "hidden_act": "silu",
    "vocab_size": VOCABULARY,
    "tie_word_embeddings": False,
    "eos_token_id": 257,
}
"""Heads of 16 are not the hidden size by their number, so that the two are told apart."""

_ENCODERS = {
    "F32": lambda numbers: numbers.astype("<f4"),
    "F16": lambda numbers: numbers.astype("<f2"),
    "BF16": lambda numbers: (numbers.astype("<f4").view("<u4") >> 16).astype("<u2"),
    "I8": lambda numbers: numbers.astype("i1"),
}


def toy_weights(class_name: str, seed: int = 0) -> Weights:
    """Random weights by their Hugging Face name; each number is one in bfloat16 and float16, too."""
    random = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (VOCABULARY, HIDDEN),
        "model.norm.weight": (HIDDEN,),
        "lm_head.weight": (VOCABULARY, HIDDEN),
    }
    for number in range(LAYERS):
        shapes |= {f"model.layers.{number}.{name}": shape for name, shape in _layer_shapes(class_name).items()}
    return {name: _number(random, shape) for name, shape in shapes.items()}


def _number(random: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    return (random.integers(-127, 128, shape) / 256).astype(np.float32)


def _layer_shapes(class_name: str) -> dict[str, tuple[int, ...]]:
    rows = {"q": HEADS * HEAD_SIZE, "k": KV_HEADS * HEAD_SIZE, "v": KV_HEADS * HEAD_SIZE}
    shapes: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (HIDDEN,),
        "post_attention_layernorm.weight": (HIDDEN,),
        **{f"self_attn.{part}_proj.weight": (count, HIDDEN) for part, count in rows.items()},
        "self_attn.o_proj.weight": (HIDDEN, HEADS * HEAD_SIZE),
        "mlp.gate_proj.weight": (INNER, HIDDEN),
        "mlp.up_proj.weight": (INNER, HIDDEN),
        "mlp.down_proj.weight": (HIDDEN, INNER),
    }
    if class_name == "Qwen2ForCausalLM":
        shapes |= {f"self_attn.{part}_proj.bias": (count,) for part, count in rows.items()}
    if class_name == "Qwen3ForCausalLM":
        shapes |= {f"self_attn.{part}_norm.weight": (HEAD_SIZE,) for part in ("q", "k")}
    return shapes


def write_toy_folder(
    folder: Path,
    class_name: str = "LlamaForCausalLM",
    weights: Weights | None = None,
    *,
    dtype: str = "F32",
    shards: int = 1,
    **config: Any,
) -> Path:
    """A folder as Hugging Face has it; with several shards there is an index. A config value of None leaves it out."""
    folder.mkdir(parents=True)
    byte_level_tokenizer().save(str(folder / "tokenizer.json"))
    values = {**CONFIG, "architectures": [class_name], **config}
    given = {key: value for key, value in values.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(given))
    weights = toy_weights(class_name) if weights is None else weights
    if shards == 1:
        write_safetensors(folder / "model.safetensors", weights, dtype)
        return folder
    weight_map = {}
    for shard in range(shards):
        name = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = dict(list(weights.items())[shard::shards])
        write_safetensors(folder / name, part, dtype)
        weight_map |= dict.fromkeys(part, name)
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def write_safetensors(path: Path, weights: Mapping[str, npt.NDArray[Any]], dtype: str) -> None:
    """The numbers as `dtype`, cut off rather than rounded where that is bfloat16."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, numbers in weights.items():
        encoded = _ENCODERS[dtype](numbers).tobytes()
        offsets = [len(data), len(data) + len(encoded)]
        header[name] = {"dtype": dtype, "shape": list(numbers.shape), "data_offsets": offsets}
        data += encoded
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
