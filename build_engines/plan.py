"""What fits on a GPU: weights, activations, the KV cache, and the limits to build an engine with.

Memory of one GPU = weights + activations + runtime + KV cache + what the runtime leaves free. Weights and cache follow
from the model; activations and the runtime's own are estimates on the safe side, which no GPU has confirmed:
docs/planning.md has every formula.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from build_engines.architecture import Architecture, read_architecture
from build_engines.checkpoint import Checkpoint
from build_engines.errors import BuildError
from build_engines.gpus import GIB, Gpu
from build_engines.parallel import (
    cached_values_of_rank,
    check_parallel,
    elements_of_rank,
    kv_heads_of_rank,
    legal_tp,
    padded_vocab,
)
from build_engines.precision import (
    DTYPES,
    QUANTIZATIONS,
    Quantization,
    check_sm,
    find_quantization,
    kv_bytes,
    model_dtype,
    stored_quantization,
)

TOKENS_PER_BLOCK = 32
"""TensorRT-LLM's default; a sequence takes whole blocks of the cache."""

DEFAULT_MAX_NUM_TOKENS = 8192
MOST_SEQS = 256
TYPICAL_LEN = 2048

RUNTIME_BYTES = 3 * GIB // 2
"""CUDA's context, the libraries' code, workspaces of cuBLAS and NCCL: an estimate."""

_ACTIVATIONS_AT_ONCE = 1.5
"""How many times a layer's values are held: TensorRT reuses buffers, but not all of them. An estimate."""

_BATCH_STATE_BYTES = 20
"""Of a sequence's every position: ids and log probabilities, and their copies within the decoder."""

_OFFERED_TP = (1, 2, 4, 8)


@dataclass(frozen=True)
class Options:
    """What a plan is asked for. None leaves the choice to the plan; `gpus` is how many there are, if known."""

    gpu: Gpu
    gpus: int | None = None
    tp: int | None = None
    ep: int = 1
    dtype: str = "auto"
    quant: str | None = None
    kv_dtype: str = "auto"
    max_model_len: int | None = None
    max_input_len: int | None = None
    max_num_seqs: int | None = None
    max_num_tokens: int | None = None
    chunked_context: bool = True
    kv_fraction: float = 0.9
    typical_len: int = TYPICAL_LEN


@dataclass(frozen=True)
class Memory:
    """Bytes of one GPU. `free` is what the runtime leaves (1 - kv_fraction)."""

    total: int
    weights: int
    activations: int
    runtime: int
    kv_cache: int
    free: int


@dataclass(frozen=True)
class Plan:
    """One way to run a model. Lengths and `kv_tokens` are in tokens; the cache's sizes are one GPU's."""

    model: Architecture
    parameters: int
    options: Options
    tp: int
    dtype: str
    quantization: Quantization | None
    memory: Memory
    kv_bytes_per_token: int
    kv_tokens: int
    max_seq_len: int
    max_input_len: int
    max_batch_size: int
    max_num_tokens: int
    warnings: tuple[str, ...]

    def context_at(self, concurrency: int) -> int:
        """The longest sequences, in tokens, of which so many fit at once, whatever the model's own limit; 0 if none."""
        return self.kv_tokens // TOKENS_PER_BLOCK // concurrency * TOKENS_PER_BLOCK

    def concurrency_at(self, context: int) -> int:
        """How many sequences of so many tokens fit at once."""
        return self.kv_tokens // TOKENS_PER_BLOCK // ceil(context / TOKENS_PER_BLOCK)


def make_plan(checkpoint: Checkpoint, options: Options) -> Plan:
    """The plan for a model on a GPU. Raises BuildError, naming what would fit, for what does not."""
    model = read_architecture(checkpoint.config)
    _check_options(model, options)
    if options.tp is not None:
        check_parallel(model, options.tp, options.ep, options.gpus)
        plan = _plan(checkpoint, model, options, options.tp)
    else:
        plan = next(_plans(checkpoint, model, options), None)
    if plan is None:
        raise BuildError(_does_not_fit(checkpoint, model, options))
    return plan


def other_plans(checkpoint: Checkpoint, options: Options) -> list[Plan]:
    """All that fit, by quantization and then by number of GPUs, with the same limits asked for."""
    model = read_architecture(checkpoint.config)
    names = [None, *QUANTIZATIONS] if stored_quantization(checkpoint.config) is None else [None]
    able = [name for name in names if name is None or options.gpu.sm >= QUANTIZATIONS[name].least_sm]
    return [plan for name in able for plan in _plans(checkpoint, model, replace(options, quant=name, tp=None))]


def _plans(checkpoint: Checkpoint, model: Architecture, options: Options) -> Iterator[Plan]:
    """Those that fit, fewest GPUs first."""
    for tp in legal_tp(model):
        if tp in _OFFERED_TP and tp % options.ep == 0 and tp <= (options.gpus or max(_OFFERED_TP)):
            check_parallel(model, tp, options.ep, options.gpus)
            if plan := _plan(checkpoint, model, options, tp):
                yield plan


def _check_options(model: Architecture, options: Options) -> None:
    for name in ("max_model_len", "max_input_len", "max_num_seqs", "max_num_tokens", "typical_len"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise BuildError(f"{name}: {value} is less than 1")
    if not 0 < options.kv_fraction < 1:
        raise BuildError(f"kv_fraction: {options.kv_fraction} is not between 0 and 1")
    longest, asked = model.context, options.max_model_len
    if asked is None and longest is None:
        raise BuildError("max_model_len: config.json has no max_position_embeddings, so it must be given")
    if asked is not None and longest is not None and asked > longest:
        raise BuildError(
            f"max_model_len: {asked} is beyond the model's {longest} (max_position_embeddings, rope scaling included); "
            "config.json would need a rope_scaling with a factor that reaches it"
        )
    limit = asked or longest
    if options.max_input_len is not None and limit is not None and options.max_input_len >= limit:
        raise BuildError(
            f"max_input_len: {options.max_input_len} leaves no token for an answer: max_model_len is {limit}"
        )
    if options.max_num_seqs and options.max_num_tokens and options.max_num_tokens < options.max_num_seqs:
        raise BuildError(
            f"max_num_tokens: {options.max_num_tokens} is less than max_num_seqs {options.max_num_seqs}: "
            "every running sequence takes one of them in a step"
        )


def _plan(checkpoint: Checkpoint, model: Architecture, options: Options, tp: int) -> Plan | None:
    """The plan with so many GPUs, None if it does not fit."""
    sm = options.gpu.sm
    dtype = model_dtype(checkpoint.config, options.dtype, sm)
    quantization = _quantization(checkpoint, options)
    seqs = options.max_num_seqs or MOST_SEQS
    num_tokens = options.max_num_tokens or max(DEFAULT_MAX_NUM_TOKENS, seqs)
    wanted = options.max_model_len or model.context
    assert wanted is not None
    per_token = cached_values_of_rank(model, tp) * kv_bytes(options.kv_dtype, dtype, sm)
    formula = _weight_bytes(model, tp, options.ep, DTYPES[dtype], quantization)
    weights = ceil(formula * _stored_ratio(checkpoint, model, dtype, quantization))
    activations = _activation_bytes(model, tp, DTYPES[dtype], num_tokens, seqs, wanted)
    left = options.gpu.memory - weights - activations - RUNTIME_BYTES
    blocks = int(left * options.kv_fraction) // (per_token * TOKENS_PER_BLOCK) if left > 0 else 0
    kv_cache = blocks * per_token * TOKENS_PER_BLOCK
    shortest = ceil(options.max_model_len / TOKENS_PER_BLOCK) if options.max_model_len else 1
    if blocks < shortest * (options.max_num_seqs or 1):
        return None
    kv_tokens = blocks * TOKENS_PER_BLOCK
    seq_len = min(wanted, blocks // (options.max_num_seqs or 1) * TOKENS_PER_BLOCK)
    fits = blocks // ceil(min(options.typical_len, seq_len) / TOKENS_PER_BLOCK)
    batch = options.max_num_seqs or max(1, min(MOST_SEQS, fits))
    memory = Memory(options.gpu.memory, weights, activations, RUNTIME_BYTES, kv_cache, left - kv_cache)
    plan = Plan(
        model=model,
        parameters=_parameters(checkpoint, model),
        options=options,
        tp=tp,
        dtype=dtype,
        quantization=quantization,
        memory=memory,
        kv_bytes_per_token=per_token,
        kv_tokens=kv_tokens,
        max_seq_len=seq_len,
        max_input_len=min(options.max_input_len or seq_len - 1, seq_len - 1),
        max_batch_size=batch,
        max_num_tokens=num_tokens,
        warnings=(),
    )
    return replace(plan, warnings=tuple(_warnings(checkpoint, plan)))


def _quantization(checkpoint: Checkpoint, options: Options) -> Quantization | None:
    stored = stored_quantization(checkpoint.config)
    if options.quant in (None, "none"):
        if stored:
            check_sm(stored, options.gpu.sm, "model")
        return stored
    assert options.quant is not None
    if stored:
        raise BuildError(f"quant: {options.quant} asked for, but the model is quantized with {stored.name} already")
    return find_quantization(options.quant, options.gpu.sm)


def _weight_bytes(model: Architecture, tp: int, ep: int, dtype_bytes: int, quantization: Quantization | None) -> float:
    """Of one rank, as the config has it."""
    total = 0.0
    for weight in model.weights:
        quantized = quantization and weight.is_linear and (quantization.name != "mxfp4" or weight.name == "experts")
        size = quantization.bytes_per_value if quantization and quantized else dtype_bytes
        total += elements_of_rank(model, weight, tp, ep) * size
    return total


def _stored_ratio(checkpoint: Checkpoint, model: Architecture, dtype: str, quantization: Quantization | None) -> float:
    """What the files have over what the config says: 1 where there are no files, or they agree."""
    if not checkpoint.elements:
        return 1.0
    if stored_quantization(checkpoint.config):
        return checkpoint.stored_bytes / _weight_bytes(model, 1, 1, DTYPES[dtype], quantization)
    return _parameters(checkpoint, model) / model.parameters


def _parameters(checkpoint: Checkpoint, model: Architecture) -> int:
    """As the files have them, unless quantized ones hide them; a head stored beside tied embeddings counts once."""
    if not checkpoint.elements or stored_quantization(checkpoint.config):
        return model.parameters
    is_tied = not any(weight.name == "output head" for weight in model.weights)
    twice = checkpoint.elements.get("lm_head.weight", 0) if is_tied else 0
    return sum(checkpoint.elements.values()) - twice


def _activation_bytes(model: Architecture, tp: int, dtype_bytes: int, num_tokens: int, seqs: int, seq_len: int) -> int:
    """Of the widest layer for a step's tokens, the logits (32 bits, and their probabilities), and the batch's state."""
    heads = ceil(model.heads / tp) * max(model.kv_values // 2, ceil(model.latent_values / 2))
    cached = kv_heads_of_rank(model, tp) * model.kv_values + model.latent_values
    values = 3 * model.hidden + heads + cached + ceil(2 * model.active_width / tp)
    layer = int(num_tokens * values * dtype_bytes * _ACTIVATIONS_AT_ONCE)
    return layer + seqs * padded_vocab(model, tp) * 8 + seqs * seq_len * _BATCH_STATE_BYTES


def _warnings(checkpoint: Checkpoint, plan: Plan) -> Iterator[str]:
    model, options = plan.model, plan.options
    if not model.is_known:
        yield f"model_type {model.model_type!r} is not known: counted as a Llama's" + (
            "" if checkpoint.elements else ", and there are no weight files to hold that against"
        )
    if checkpoint.is_part:
        yield "only the language model of config.json's text_config is planned for"
    ratio = _stored_ratio(checkpoint, model, plan.dtype, plan.quantization)
    if abs(ratio - 1) > 0.02:
        yield f"the weight files hold {ratio:.2f} of what config.json accounts for; the files count"
    wanted = options.max_model_len or model.context
    if wanted and plan.max_seq_len < wanted:
        yield f"the model's {wanted:,} tokens do not fit; {plan.max_seq_len:,} do"
    if not options.chunked_context and plan.max_input_len > plan.max_num_tokens:
        yield (
            f"prompts of more than {plan.max_num_tokens:,} tokens will be refused: that is max_num_tokens, and "
            "chunked context is off"
        )
    if padded_vocab(model, plan.tp) != model.vocab:
        yield f"the vocabulary is padded from {model.vocab:,} to {padded_vocab(model, plan.tp):,}, a multiple of tp"
    if not model.latent_values and plan.tp > model.kv_heads:
        yield f"each of the {model.kv_heads} KV heads is copied to {plan.tp // model.kv_heads} GPUs"
    if window := max((size for size in model.windows if size), default=0):
        seeing = sum(size is None for size in model.windows)
        if window < plan.max_seq_len:
            yield (
                f"{model.layers - seeing} of {model.layers} layers see {window:,} tokens only; counted whole, which is "
                "safe: max_attention_window would leave more"
            )
    if options.gpu.sm < 80:
        yield f"TensorRT-LLM 1.x is not tested by NVIDIA on SM {options.gpu.sm}"
    if options.gpu.name.startswith("orin"):
        yield "TensorRT-LLM has Orin on a branch of its own (v0.12.0-jetson), and the CPU shares this memory"


def _does_not_fit(checkpoint: Checkpoint, model: Architecture, options: Options) -> str:
    dtype = model_dtype(checkpoint.config, options.dtype, options.gpu.sm)
    tp = options.tp or max(size for size in legal_tp(model) if size <= (options.gpus or max(_OFFERED_TP)))
    weights = _weight_bytes(model, tp, options.ep, DTYPES[dtype], _quantization(checkpoint, options))
    weights *= _stored_ratio(checkpoint, model, dtype, _quantization(checkpoint, options))
    asked = f" with {options.max_num_seqs or 1} x {options.max_model_len:,} tokens" if options.max_model_len else ""
    fitting = sorted(other_plans(checkpoint, options), key=lambda plan: plan.tp)
    ways = [f"--tp {plan.tp}{f' --quant {plan.options.quant}' if plan.options.quant else ''}" for plan in fitting]
    if options.max_model_len and (shorter := _plan(checkpoint, model, replace(options, max_model_len=None), tp)):
        ways.insert(0, f"--tp {tp} --max-model-len {min(shorter.max_seq_len, options.max_model_len)}")
    return (
        f"the model does not fit{asked}: of one GPU's {options.gpu.memory / GIB:.1f} GiB its weights take "
        f"{weights / GIB:.1f} GiB at tp {tp}; what would fit: {'; '.join(ways[:6]) or 'nothing on this GPU'}"
    )
