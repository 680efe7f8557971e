"""A model whose answers are known beforehand, on any engine: every token has a likeliest and a second successor.

Its layer adds nothing: the logits of a token are LIKELIEST for its successor, SECOND for another, and 0 for the rest.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np

from tests.toy_tokenizers import IM_END, PADDED_VOCAB_SIZE
from tests.unit.preprocess.toy_models import write_model
from tests.unit.tritone.toy_safetensors import Weights, write_safetensors

LIKELIEST, SECOND = 4.0, 3.0
HEADS, HEAD_SIZE, INNER = 5, 64, 64
CONTEXT = 32768

_DENOMINATOR = math.exp(LIKELIEST) + math.exp(SECOND) + PADDED_VOCAB_SIZE - 2
LOGPROBS = (LIKELIEST - math.log(_DENOMINATOR), SECOND - math.log(_DENOMINATOR))
"""Of the likeliest and of the second successor."""

CHAT_ANSWER = "^_`abcdefghijklmnopqrstuvwxyz"
"""To any chat: what follows "]", the last character of the prompt."""


def successors() -> tuple[dict[int, int], dict[int, int]]:
    """The likeliest and the second successor of every token.

    Bytes follow each other, but "Z" is followed by "A", "z" by the end, the bytes of an emoji by each other in a
    circle, and "0" by "1" and the reverse, "5" by itself. The second successor of letters is "Z", of "0" "5", of "1"
    "6" and of "5" "7".
    """
    likeliest = {token: (token + 1) % 256 for token in range(256)} | dict.fromkeys(range(256, 320), ord("a"))
    circles = {ord("Z"): ord("A"), ord("z"): IM_END, ord("0"): ord("1"), ord("1"): ord("0"), ord("5"): ord("5")}
    emoji = "😀".encode()
    likeliest |= circles | dict(zip(emoji, emoji[1:] + emoji[:1], strict=True))
    second = dict.fromkeys(range(PADDED_VOCAB_SIZE), ord("Z"))
    second |= {ord("Y"): ord("X"), ord("0"): ord("5"), ord("1"): ord("6"), ord("5"): ord("7")}
    return likeliest, second


def write_successor_model(folder: Path) -> Path:
    """A Hugging Face folder, of a tokenizer in which every byte is a token and `<|im_end|>` ends an answer."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": PADDED_VOCAB_SIZE,
        "intermediate_size": INNER,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "head_dim": HEAD_SIZE,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "vocab_size": PADDED_VOCAB_SIZE,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "eos_token_id": IM_END,
    }
    write_model(folder, config=config)
    write_safetensors(folder / "model.safetensors", _weights(), "F32")
    return folder


def write_lora(folder: Path, taken_for: tuple[str, str]) -> Path:
    """A LoRA adapter with which a prompt of the first character alone is answered like one of the second."""
    first, second = (ord(character) for character in taken_for)
    down, up = (np.zeros((2, 8, PADDED_VOCAB_SIZE), np.float32) for _ in range(2))
    down[0, 0, first] = down[1, 0, 0] = 1  # v_proj sees the first character, o_proj what v_proj has made of it
    up[0, 0, 0], up[1, 0, second] = 1, 8
    weights = {}
    for number, module in enumerate(("v_proj", "o_proj")):
        prefix = f"base_model.model.model.layers.0.self_attn.{module}"
        weights |= {f"{prefix}.lora_A.weight": down[number], f"{prefix}.lora_B.weight": up[number].T}
    folder.mkdir()
    write_safetensors(folder / "adapter_model.safetensors", weights, "F32")
    config = {"peft_type": "LORA", "r": 8, "lora_alpha": 8, "target_modules": ["v_proj", "o_proj"], "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


def _weights() -> Weights:
    size = PADDED_VOCAB_SIZE
    norm = math.sqrt(size)  # what RMSNorm makes of a one
    head = np.zeros((size, size), np.float32)
    for logit, following in zip((LIKELIEST, SECOND), successors(), strict=True):
        for token, successor in following.items():
            head[successor, token] = logit / norm
    layer = {
        "input_layernorm": np.ones(size),
        "post_attention_layernorm": np.ones(size),
        **{f"self_attn.{part}_proj": np.zeros((size, size)) for part in "qkvo"},
        **{f"mlp.{part}_proj": np.zeros((INNER, size)) for part in ("gate", "up")},
        "mlp.down_proj": np.zeros((size, INNER)),
    }
    return {
        "model.embed_tokens.weight": np.eye(size, dtype=np.float32),
        "model.norm.weight": np.ones(size, np.float32),
        "lm_head.weight": head,
        **{f"model.layers.0.{name}.weight": numbers.astype(np.float32) for name, numbers in layer.items()},
    }
