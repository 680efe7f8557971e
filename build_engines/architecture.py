"""A decoder's weights and KV cache, counted from its config.json.

The counts are those of the Hugging Face classes of the same model_type; tests hold them against the published
numbers of parameters. An unknown model_type is counted as a Llama's, and `is_known` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from build_engines.errors import BuildError


class Split(Enum):
    """What tensor parallelism does with a weight."""

    EVENLY = "every rank has its part"
    BY_KV_HEAD = "every rank has its key and value heads, at least one"
    BY_EXPERT = "as expert parallelism has it, else evenly"
    COPIED = "every rank has all of it"


@dataclass(frozen=True)
class Weight:
    """`elements` is the number of values in all layers together; quantization takes `is_linear` ones only."""

    name: str
    elements: int
    split: Split
    is_linear: bool = False


@dataclass(frozen=True)
class Architecture:
    """What planning needs to know. `kv_values` is the number of values cached for a token by one KV head of one layer.

    `latent_values` is the same for a layer whose cache is not by head (MLA), else 0. `windows` has the sliding window
    of each layer, None where it sees everything. `active_width` is how wide a token's way through a feed-forward
    is, `divisible` has the widths that tensor parallelism must divide. `context` is the longest sequence the model was
    made for, None if unsaid.
    """

    model_type: str
    is_known: bool
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    kv_values: int
    latent_values: int
    vocab: int
    experts: int
    active_width: int
    context: int | None
    windows: tuple[int | None, ...]
    weights: tuple[Weight, ...]
    divisible: Mapping[str, int]

    @property
    def parameters(self) -> int:
        """All of them: every expert, and tied embeddings once."""
        return sum(weight.elements for weight in self.weights)


_LLAMA_LIKE = ("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "phi3", "smollm3")
_KNOWN = (*_LLAMA_LIKE, "gemma", "gemma2", "deepseek_v2", "deepseek_v3", "gpt_oss")
_TIED = ("gemma", "gemma2")  # where config.json need not say it
_QK_NORMS = ("qwen3", "qwen3_moe")
_BIASED_QKV = ("qwen2", "qwen2_moe")


def read_architecture(config: Mapping[str, Any]) -> Architecture:
    """The architecture of a config.json. Raises BuildError naming the key that is missing or wrong."""
    read = _Reader(config)
    model_type = str(config.get("model_type") or "")
    layers, hidden = read.count("num_hidden_layers"), read.count("hidden_size")
    heads = read.count("num_attention_heads")
    kv_heads = read.count("num_key_value_heads", heads)
    if heads % kv_heads:
        raise BuildError(f"model: num_attention_heads {heads} is no multiple of num_key_value_heads {kv_heads}")
    vocab = read.count("vocab_size")
    is_tied = bool(config.get("tie_word_embeddings", model_type in _TIED))
    head = 0 if is_tied else hidden * vocab
    attention, kv_values, latent_values = _attention(read, model_type, hidden, heads, kv_heads)
    feed_forward, width, divisible = _feed_forward(read, model_type, layers, hidden)
    norms = (4 if model_type == "gemma2" else 2) * hidden * layers + hidden
    return Architecture(
        model_type=model_type,
        is_known=model_type in _KNOWN,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        kv_values=kv_values,
        latent_values=latent_values,
        vocab=vocab,
        experts=_experts(read),
        active_width=width,
        context=_context(read),
        windows=_windows(read, model_type, layers),
        weights=(
            Weight("embeddings", hidden * vocab, Split.COPIED),
            *(Weight(one.name, one.elements * layers, one.split, one.is_linear) for one in attention),
            *feed_forward,
            Weight("norms", norms, Split.COPIED),
            *([Weight("output head", head, Split.EVENLY)] if head else []),
        ),
        divisible=divisible,
    )


class _Reader:
    """Numbers by key."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def count(self, key: str, otherwise: int | None = None, least: int = 1) -> int:
        value = self.config.get(key)
        if value is None and otherwise is not None:
            return otherwise
        if type(value) is not int or value < least:
            raise BuildError(f"model: {key} in config.json is {value!r}, not an integer of at least {least}")
        return value

    def is_set(self, key: str) -> bool:
        return bool(self.config.get(key))


def _attention(read: _Reader, model_type: str, hidden: int, heads: int, kv_heads: int) -> tuple[list[Weight], int, int]:
    """The weights of one layer, the values a KV head caches for a token, and those cached apart from heads."""
    if read.config.get("kv_lora_rank") is not None:
        return _latent_attention(read, hidden, heads)
    if read.config.get("head_dim") is None and hidden % heads:
        raise BuildError(f"model: hidden_size {hidden} is no multiple of num_attention_heads {heads}, and no head_dim")
    size = read.count("head_dim", hidden // heads)
    query, cached = heads * size, kv_heads * size
    has_bias = read.is_set("attention_bias")
    if model_type in _BIASED_QKV or has_bias:
        biases = [
            Weight("query biases", query, Split.EVENLY),
            Weight("key and value biases", 2 * cached, Split.BY_KV_HEAD),
        ]
    else:
        biases = []
    if has_bias:
        biases.append(Weight("attention output biases", hidden, Split.COPIED))
    if model_type in _QK_NORMS:
        biases.append(Weight("query and key norms", 2 * size, Split.COPIED))
    if model_type == "gpt_oss":
        biases.append(Weight("attention sinks", heads, Split.EVENLY))
    linear = [
        Weight("queries", hidden * query, Split.EVENLY, is_linear=True),
        Weight("keys and values", 2 * hidden * cached, Split.BY_KV_HEAD, is_linear=True),
        Weight("attention output", query * hidden, Split.EVENLY, is_linear=True),
    ]
    return [*linear, *biases], 2 * size, 0


def _latent_attention(read: _Reader, hidden: int, heads: int) -> tuple[list[Weight], int, int]:
    """DeepSeek's (arXiv 2405.04434): a token's keys and values are cached as one latent vector and one rotary key."""
    rank, rotary = read.count("kv_lora_rank"), read.count("qk_rope_head_dim")
    plain, value = read.count("qk_nope_head_dim"), read.count("v_head_dim")
    query_rank = read.count("q_lora_rank", 0)
    query = heads * (plain + rotary)
    weights = [
        Weight("latent keys and values", hidden * (rank + rotary), Split.COPIED, is_linear=True),
        Weight("keys and values out of latents", rank * heads * (plain + value), Split.EVENLY, is_linear=True),
        Weight("attention output", heads * value * hidden, Split.EVENLY, is_linear=True),
        Weight("latent norms", rank + query_rank, Split.COPIED),
    ]
    if query_rank:
        weights.append(Weight("latent queries", hidden * query_rank, Split.COPIED, is_linear=True))
    weights.append(Weight("queries", (query_rank or hidden) * query, Split.EVENLY, is_linear=True))
    return weights, 0, rank + rotary


def _experts(read: _Reader) -> int:
    """Experts of a layer that a router chooses from, 0 for a dense model."""
    names = ("num_local_experts", "num_experts", "n_routed_experts")
    return next((read.count(name, least=0) for name in names if read.config.get(name) is not None), 0)


def _feed_forward(read: _Reader, model_type: str, layers: int, hidden: int) -> tuple[list[Weight], int, dict[str, int]]:
    """The weights of all layers, how many values wide a token's way through one is, and what TP must divide."""
    experts = _experts(read)
    if not experts:
        width = read.count("intermediate_size")
        dense = [Weight("feed-forward", 3 * hidden * width * layers, Split.EVENLY, is_linear=True)]
        if read.is_set("mlp_bias"):
            dense.append(Weight("feed-forward biases", (2 * width + hidden) * layers, Split.EVENLY))
        return dense, width, {"intermediate_size": width}
    routed = sum(_is_routed(read, place) for place in range(layers))
    width = read.count("moe_intermediate_size", read.count("intermediate_size"))
    shared = read.count("n_shared_experts", 0, least=0) * width
    shared = read.count("shared_expert_intermediate_size", shared, least=0)
    active = read.count("num_experts_per_tok", read.count("experts_per_token", experts)) * width + shared
    weights = [
        Weight("experts", 3 * hidden * width * experts * routed, Split.BY_EXPERT, is_linear=True),
        Weight("routers", hidden * experts * routed, Split.COPIED),
    ]
    if model_type == "gpt_oss":
        weights.append(Weight("expert biases", (2 * width + hidden) * experts * routed, Split.BY_EXPERT))
        weights.append(Weight("router biases", experts * routed, Split.COPIED))
    if read.config.get("topk_method") == "noaux_tc":
        weights.append(Weight("router biases", experts * routed, Split.COPIED))
    if shared:
        weights.append(Weight("shared experts", 3 * hidden * shared * routed, Split.EVENLY, is_linear=True))
    if model_type == "qwen2_moe":
        weights.append(Weight("shared expert gates", hidden * routed, Split.COPIED))
    divisible = {"moe_intermediate_size" if read.config.get("moe_intermediate_size") else "intermediate_size": width}
    if dense_layers := layers - routed:
        dense_width = read.count("intermediate_size")
        weights.append(Weight("feed-forward", 3 * hidden * dense_width * dense_layers, Split.EVENLY, is_linear=True))
        divisible["intermediate_size"] = dense_width
        active = max(active, dense_width)
    return weights, active, divisible


def _is_routed(read: _Reader, layer: int) -> bool:
    """Whether a layer of a model with experts has them: DeepSeek's rule, then Qwen's."""
    if layer < read.count("first_k_dense_replace", 0, least=0) or layer % read.count("moe_layer_freq", 1):
        return False
    dense = read.config.get("mlp_only_layers") or ()
    return layer not in dense and (layer + 1) % read.count("decoder_sparse_step", 1) == 0


def _windows(read: _Reader, model_type: str, layers: int) -> tuple[int | None, ...]:
    window = read.config.get("sliding_window")
    if window is None or read.config.get("use_sliding_window") is False:
        return (None,) * layers
    size = read.count("sliding_window")
    if isinstance(kinds := read.config.get("layer_types"), list):
        return tuple(size if kind == "sliding_attention" else None for kind in kinds)
    if model_type in ("gemma2", "gpt_oss"):
        return tuple(None if place % 2 else size for place in range(layers))
    return (size,) * layers


def _context(read: _Reader) -> int | None:
    """The model's own limit, with the rope scaling that config.json has: its factor counts from the original length.

    Where the original length is not named the factor counts from max_position_embeddings, as for transformers.
    """
    if read.config.get("max_position_embeddings") is None:
        return None
    longest = read.count("max_position_embeddings")
    scaling = read.config.get("rope_scaling") or read.config.get("rope_parameters") or {}
    factor = scaling.get("factor")
    kind = scaling.get("rope_type") or scaling.get("type")
    if not isinstance(factor, int | float) or kind in (None, "default", "llama3", "longrope", "su"):
        return longest
    original = scaling.get("original_max_position_embeddings")
    return max(longest, int(factor * (original or longest)))
