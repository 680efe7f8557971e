"""What a Llama, Qwen2 or Qwen3 computes, in numpy and by the book: no cache, no batch, float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def greedy_ids(weights: Mapping[str, Array], config: Mapping[str, Any], prompt: Sequence[int], count: int) -> list[int]:
    """The `count` ids that follow the prompt. `config` is a config.json's, with the `frequencies` of the rotation."""
    ids = list(prompt)
    for _ in range(count):
        ids.append(int(np.argmax(_last_logits(weights, config, ids))))
    return ids[len(prompt) :]


def _last_logits(weights: Mapping[str, Array], config: Mapping[str, Any], ids: list[int]) -> Array:
    hidden = weights["model.embed_tokens.weight"][ids].astype(np.float64)
    for number in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{number}."
        layer = {name.removeprefix(prefix): array for name, array in weights.items() if name.startswith(prefix)}
        hidden = hidden + _attention(layer, config, _norm(hidden, layer["input_layernorm.weight"], config))
        inner = _norm(hidden, layer["post_attention_layernorm.weight"], config)
        gate = _linear(layer, "mlp.gate_proj", inner)
        up = _linear(layer, "mlp.up_proj", inner)
        hidden = hidden + _linear(layer, "mlp.down_proj", gate / (1 + np.exp(-gate)) * up)
    last = _norm(hidden[-1], weights["model.norm.weight"], config)
    head = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
    return head.astype(np.float64) @ last


def _attention(layer: Mapping[str, Array], config: Mapping[str, Any], hidden: Array) -> Array:
    length, heads, kv_heads = len(hidden), config["num_attention_heads"], config["num_key_value_heads"]
    query, key, value = (
        _linear(layer, f"self_attn.{part}_proj", hidden).reshape(length, -1, config["head_dim"]) for part in "qkv"
    )
    if "self_attn.q_norm.weight" in layer:
        query = _norm(query, layer["self_attn.q_norm.weight"], config)
        key = _norm(key, layer["self_attn.k_norm.weight"], config)
    query, key = _rotated(query, config), np.repeat(_rotated(key, config), heads // kv_heads, axis=1)
    value = np.repeat(value, heads // kv_heads, axis=1)
    scores = np.einsum("qhd,khd->hqk", query, key) / np.sqrt(config["head_dim"])
    scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    mixed = np.einsum("hqk,khd->qhd", shares, value)
    return _linear(layer, "self_attn.o_proj", mixed.reshape(length, -1))


def _rotated(heads: Array, config: Mapping[str, Any]) -> Array:
    """Each number of a head's first half turns with the one at the same place in its second half."""
    half = config["head_dim"] // 2
    angles = np.outer(np.arange(len(heads)), config["frequencies"])[:, None, :]
    first, second = heads[..., :half], heads[..., half:]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def _norm(numbers: Array, weight: Array, config: Mapping[str, Any]) -> Array:
    scale = np.sqrt(np.mean(numbers**2, axis=-1, keepdims=True) + config["rms_norm_eps"])
    normed: Array = numbers / scale * weight
    return normed


def _linear(layer: Mapping[str, Array], name: str, numbers: Array) -> Array:
    return numbers @ layer[f"{name}.weight"].T.astype(np.float64) + layer.get(f"{name}.bias", np.zeros(1))
