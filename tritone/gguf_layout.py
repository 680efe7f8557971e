"""Says what a Hugging Face config.json means in GGUF: its keys, its tensors, their order. Runs in our process.

Only what OpenVINO GenAI's reader of GGUF files computes rightly passes; everything else is refused with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tritone.errors import ModelError
from tritone.rope_frequencies import SCALING_KEYS, Frequencies, base_frequencies, scaled_frequencies

# transformers class: GGUF architecture. Mistral computes what Llama does, if its attention has no window.
ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
}


@dataclass(frozen=True)
class GgufTensor:
    """What a tensor is called in GGUF and its shape, rows first; with `heads`, the rows of each are interleaved."""

    name: str
    shape: tuple[int, ...]
    heads: int = 0


@dataclass(frozen=True)
class GgufLayout:
    """The architecture, its keys (without the architecture before them), and its tensors by their Hugging Face name.

    `frequencies` are those of the rotation, scaled or not: they have no place in the file.
    """

    architecture: str
    values: dict[str, int | float]
    tensors: dict[str, GgufTensor]
    frequencies: Frequencies

    @property
    def base_frequencies(self) -> Frequencies:
        """What is read out of the file."""
        return _base_frequencies(self.values)


def unsupported(folder: Path, reason: str) -> ModelError:
    """The refusal of a model that OpenVINO itself may well take, and the way to it."""
    return ModelError(
        f"{folder} {reason}, which the openvino engine does not take from a Hugging Face folder: "
        f"convert it with `optimum-cli export openvino --model {folder} NEW_FOLDER` and serve NEW_FOLDER"
    )


def gguf_layout(config: dict[str, Any], folder: Path) -> GgufLayout:
    """The layout of the model whose config.json this is. Raises ModelError for what is missing or not supported."""
    names = config.get("architectures") or ["no architecture"]
    if names[0] not in ARCHITECTURES:
        raise unsupported(folder, f"is {names[0]} (not one of {', '.join(ARCHITECTURES)})")
    architecture = ARCHITECTURES[names[0]]
    for reason in _obstacles(config, names[0]):
        raise unsupported(folder, reason)
    values = _values(config, folder)
    tensors = dict(_tensors(config, architecture, values))
    return GgufLayout(architecture, values, tensors, _frequencies(config, values, folder))


def _obstacles(config: dict[str, Any], class_name: str) -> Iterator[str]:
    """What the reader would compute wrongly, or cannot read."""
    if quantization := config.get("quantization_config"):
        yield f"is quantized ({quantization.get('quant_method', 'quantization_config')})"
    if (activation := config.get("hidden_act", "silu")) not in ("silu", "swish"):
        yield f"has the activation {activation}"
    if (scaling := _rope_type(config)) not in ("default", *SCALING_KEYS):
        yield f"has {scaling} rope scaling (not one of {', '.join(SCALING_KEYS)})"
    if (rotated := _rope(config).get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))) != 1.0:
        yield f"rotates a part of each head (partial_rotary_factor {rotated})"
    is_windowed = config.get("use_sliding_window", class_name == "MistralForCausalLM")
    if (is_windowed and config.get("sliding_window")) or "sliding_attention" in (config.get("layer_types") or []):
        yield f"has sliding-window attention ({config.get('sliding_window')})"
    if class_name in ("LlamaForCausalLM", "MistralForCausalLM") and config.get("attention_bias"):
        yield "has attention_bias"  # the reader puts the rows of q and k into another order, but not their biases


def _rope(config: dict[str, Any]) -> dict[str, Any]:
    """transformers 5 writes rope_parameters, older versions rope_scaling and rope_theta beside it."""
    return config.get("rope_parameters") or config.get("rope_scaling") or {}


def _rope_type(config: dict[str, Any]) -> str:
    rope = _rope(config)
    return str(rope.get("rope_type", rope.get("type", "default")))


def _base_frequencies(values: dict[str, int | float]) -> Frequencies:
    return base_frequencies(values["rope.freq_base"], int(values["attention.key_length"]))


def _frequencies(config: dict[str, Any], values: dict[str, int | float], folder: Path) -> Frequencies:
    if (scaling := _rope_type(config)) == "default":
        return _base_frequencies(values)
    given = {key: _positive(key, _rope(config).get(key), folder) for key in SCALING_KEYS[scaling]}
    return scaled_frequencies(_base_frequencies(values), scaling, given)


def _positive(key: str, value: Any, folder: Path) -> float:
    if type(value) not in (int, float) or not 0 < value < float("inf"):
        raise ModelError(f"{key} in {folder / 'config.json'} is {value!r}, not a positive number")
    return float(value)


def _values(config: dict[str, Any], folder: Path) -> dict[str, int | float]:
    def count(key: str, default: int | None = None) -> int:
        value = default if config.get(key) is None else config[key]
        if type(value) is not int or value < 1:
            raise ModelError(f"{key} in {folder / 'config.json'} is {value!r}, not a positive integer")
        return value

    heads = count("num_attention_heads")
    rope_theta = _rope(config).get("rope_theta", config.get("rope_theta", 10000.0))
    return {
        "block_count": count("num_hidden_layers"),
        "context_length": count("max_position_embeddings"),
        "embedding_length": count("hidden_size"),
        "feed_forward_length": count("intermediate_size"),
        "attention.head_count": heads,
        "attention.head_count_kv": count("num_key_value_heads", heads),
        "attention.key_length": count("head_dim", count("hidden_size") // heads),
        "vocab_size": count("vocab_size"),
        "attention.layer_norm_rms_epsilon": _positive("rms_norm_eps", config.get("rms_norm_eps"), folder),
        "rope.freq_base": _positive("rope_theta", rope_theta, folder),
    }


def _tensors(config: dict[str, Any], architecture: str, values: dict[str, Any]) -> Iterator[tuple[str, GgufTensor]]:
    hidden, vocabulary = values["embedding_length"], values["vocab_size"]
    yield "model.embed_tokens.weight", GgufTensor("token_embd.weight", (vocabulary, hidden))
    for number in range(values["block_count"]):
        for name, tensor in _layer_tensors(config, architecture, values):
            renamed = GgufTensor(f"blk.{number}.{tensor.name}", tensor.shape, tensor.heads)
            yield f"model.layers.{number}.{name}", renamed
    yield "model.norm.weight", GgufTensor("output_norm.weight", (hidden,))
    if not config.get("tie_word_embeddings"):
        yield "lm_head.weight", GgufTensor("output.weight", (vocabulary, hidden))


def _layer_tensors(
    config: dict[str, Any], architecture: str, values: dict[str, Any]
) -> Iterator[tuple[str, GgufTensor]]:
    hidden, inner, size = (values[key] for key in ("embedding_length", "feed_forward_length", "attention.key_length"))
    heads, kv_heads = values["attention.head_count"], values["attention.head_count_kv"]
    norms = {"input_layernorm": ("attn_norm", hidden), "post_attention_layernorm": ("ffn_norm", hidden)}
    if architecture == "qwen3":
        norms |= {"self_attn.q_norm": ("attn_q_norm", size), "self_attn.k_norm": ("attn_k_norm", size)}
    for name, (short, length) in norms.items():
        yield f"{name}.weight", GgufTensor(f"{short}.weight", (length,))
    is_llama = architecture == "llama"
    qkv_bias = architecture == "qwen2" or config.get("attention_bias")
    output_bias = architecture == "qwen3" and config.get("attention_bias")
    mlp_bias = is_llama and config.get("mlp_bias")
    matrices = [
        ("self_attn.q_proj", "attn_q", (heads * size, hidden), heads * is_llama, qkv_bias),
        ("self_attn.k_proj", "attn_k", (kv_heads * size, hidden), kv_heads * is_llama, qkv_bias),
        ("self_attn.v_proj", "attn_v", (kv_heads * size, hidden), 0, qkv_bias),
        ("self_attn.o_proj", "attn_output", (hidden, heads * size), 0, output_bias),
        ("mlp.gate_proj", "ffn_gate", (inner, hidden), 0, mlp_bias),
        ("mlp.up_proj", "ffn_up", (inner, hidden), 0, mlp_bias),
        ("mlp.down_proj", "ffn_down", (hidden, inner), 0, mlp_bias),
    ]
    for name, short, shape, interleaved, has_bias in matrices:
        yield f"{name}.weight", GgufTensor(f"{short}.weight", shape, interleaved)
        if has_bias:
            yield f"{name}.bias", GgufTensor(f"{short}.bias", shape[:1])
