"""What tensor and expert parallelism leave to one GPU, and which sizes a model allows."""

from __future__ import annotations

from math import ceil

from build_engines.architecture import Architecture, Split, Weight
from build_engines.errors import BuildError

_LARGEST_TP = 64


def legal_tp(model: Architecture) -> list[int]:
    """The tensor-parallel sizes that divide what must be divided: heads, KV heads (or copies of them), widths."""
    return [tp for tp in range(1, min(model.heads, _LARGEST_TP) + 1) if not _tp_problems(model, tp)]


def check_parallel(model: Architecture, tp: int, ep: int, gpus: int | None) -> None:
    """Raises BuildError for a size the model or the machine does not have, with those it does."""
    allowed = legal_tp(model)
    sizes = f"this model allows {', '.join(map(str, allowed))}"
    if tp < 1:
        raise BuildError(f"tp: {tp} is not a number of GPUs; {sizes}")
    if problems := _tp_problems(model, tp):
        raise BuildError(f"tp: {tp} does not divide {' and '.join(problems)}; {sizes}")
    if gpus is not None and tp > gpus:
        raise BuildError(f"tp: {tp} needs as many GPUs, there {'is' if gpus == 1 else 'are'} {gpus}; {sizes}")
    if ep == 1:
        return
    fits = [size for size in range(1, tp + 1) if tp % size == 0 and model.experts and model.experts % size == 0]
    if ep not in fits:
        has = f"{model.experts} experts" if model.experts else "no experts"
        raise BuildError(
            f"ep: {ep} must divide tp ({tp}) and the experts; this model has {has}, so it allows "
            f"{', '.join(map(str, fits)) or '1'}"
        )


def kv_heads_of_rank(model: Architecture, tp: int) -> int:
    """KV heads whose cache one rank holds: they are copied where there are more ranks than heads."""
    return max(1, model.kv_heads // tp)


def cached_values_of_rank(model: Architecture, tp: int) -> int:
    """Values that one rank caches for one token, in all layers. A latent (MLA) is whole on every rank.

    All layers count as seeing everything, also those with a sliding window: the bound that is always safe.
    """
    by_head = kv_heads_of_rank(model, tp) * model.kv_values
    return model.layers * (model.latent_values or by_head)


def elements_of_rank(model: Architecture, weight: Weight, tp: int, ep: int) -> int:
    """How many of a weight's values one rank holds, padding included."""
    if weight.split is Split.COPIED:
        return weight.elements
    if weight.split is Split.BY_KV_HEAD:
        return weight.elements // model.kv_heads * kv_heads_of_rank(model, tp)
    if weight.name == "output head":
        return model.hidden * padded_vocab(model, tp) // tp
    return ceil(weight.elements / tp)  # experts: each of ep groups has its share, cut into tp / ep parts


def padded_vocab(model: Architecture, tp: int) -> int:
    """The vocabulary as the output head has it: a multiple of tp."""
    return ceil(model.vocab / tp) * tp


def _tp_problems(model: Architecture, tp: int) -> list[str]:
    problems = []
    if model.heads % tp:
        problems.append(f"num_attention_heads ({model.heads})")
    if not model.latent_values and model.kv_heads % tp and tp % model.kv_heads:
        problems.append(f"num_key_value_heads ({model.kv_heads})")
    problems += [f"{name} ({width})" for name, width in model.divisible.items() if width % tp]
    return problems
