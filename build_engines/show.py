"""A plan as text for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from build_engines.gpus import GIB
from build_engines.plan import Memory, Plan

PARTS = ("weights", "activations", "runtime", "kv_cache", "free")
_CONCURRENCIES = (1, 4, 16, 64, 256)


def gib(size: float) -> str:
    """Bytes as GiB."""
    return f"{size / GIB:.1f} GiB"


def title(name: str, plan: Plan) -> str:
    """What runs where."""
    gpu = plan.options.gpu
    count = "one" if plan.tp == 1 else str(plan.tp)
    quantization = f", {plan.quantization.name}" if plan.quantization else ""
    return f"{name} on {count} {gpu.name} ({gib(gpu.memory)}, SM {gpu.sm}), {plan.dtype}{quantization}"


def as_text(name: str, plan: Plan, others: Sequence[Plan]) -> str:
    """The plan, what fits at once, and the other ways."""
    notes = {
        "weights": f"{plan.parameters:,} parameters" + (f" over {plan.tp} GPUs" if plan.tp > 1 else ""),
        "activations": f"{plan.max_num_tokens:,} tokens a step (estimate)",
        "runtime": "CUDA, libraries, workspaces (estimate)",
        "kv_cache": f"{plan.kv_bytes_per_token:,} bytes a token, {plan.kv_tokens:,} tokens",
        "free": f"kv_fraction {plan.options.kv_fraction}",
    }
    memory = [[part.replace("kv_cache", "KV cache"), gib(getattr(plan.memory, part)), notes[part]] for part in PARTS]
    limits = [[f"--{key.replace('_', '-')}", f"{value:,}"] for key, value in limits_of(plan).items()]
    fits = [[f"{count:,}", _capped(plan, count)] for count in _CONCURRENCIES]
    blocks = [
        title(name, plan) + "\n",
        "Memory of one GPU\n" + _table(memory),
        "Build and serve it with\n" + _table(limits),
        "Sequences at once, and the longest they can be (tokens; the model's own limit included)\n" + _table(fits),
    ]
    if others:
        blocks.append(
            f"Ways that fit: sequences of {plan.max_seq_len:,} tokens at once\n" + _table(_ways(plan, others))
        )
    blocks += [f"Note: {warning}\n" for warning in plan.warnings]
    return "\n".join(blocks)


def limits_of(plan: Plan) -> dict[str, int]:
    """The limits an engine is built with, by TensorRT-LLM's names."""
    return {
        "tp_size": plan.tp,
        "max_batch_size": plan.max_batch_size,
        "max_num_tokens": plan.max_num_tokens,
        "max_input_len": plan.max_input_len,
        "max_seq_len": plan.max_seq_len,
    }


def as_json(name: str, plan: Plan, others: Sequence[Plan]) -> dict[str, Any]:
    """All of it, sizes in bytes and lengths in tokens."""
    gpu = plan.options.gpu
    return {
        "model": name,
        "model_type": plan.model.model_type,
        "parameters": plan.parameters,
        "gpu": {"name": gpu.name, "memory_bytes": gpu.memory, "sm": gpu.sm},
        **_choice(plan),
        "memory_bytes": {part: getattr(plan.memory, part) for part in Memory.__dataclass_fields__},
        "kv_bytes_per_token": plan.kv_bytes_per_token,
        "kv_tokens": plan.kv_tokens,
        "limits": limits_of(plan),
        "longest_by_concurrency": {str(count): plan.context_at(count) for count in _CONCURRENCIES},
        "others": [
            {**_choice(other), "kv_tokens": other.kv_tokens, "concurrency": other.concurrency_at(plan.max_seq_len)}
            for other in others
        ],
        "warnings": list(plan.warnings),
    }


def _choice(plan: Plan) -> dict[str, Any]:
    return {
        "tp": plan.tp,
        "ep": plan.options.ep,
        "dtype": plan.dtype,
        "quant": plan.quantization.name if plan.quantization else None,
        "kv_dtype": plan.options.kv_dtype,
    }


def _capped(plan: Plan, concurrency: int) -> str:
    longest = plan.context_at(concurrency)
    limit = plan.model.context
    return f"{limit:,}" if limit and longest > limit else f"{longest:,}"


def _ways(plan: Plan, others: Sequence[Plan]) -> list[list[str]]:
    sizes = sorted({other.tp for other in others})
    found = {(other.quantization.name if other.quantization else other.dtype, other.tp): other for other in others}
    rows = [["", *(f"tp {size}" for size in sizes)]]
    for name in dict.fromkeys(name for name, _ in found):
        ways = [found.get((name, size)) for size in sizes]
        rows.append([name, *(f"{way.concurrency_at(plan.max_seq_len):,}" if way else "-" for way in ways)])
    return rows


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, numbers to the right."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = []
    for row in rows:
        pairs = zip(row, widths, strict=True)
        cells = [cell.rjust(width) if _is_number(cell) else cell.ljust(width) for cell, width in pairs]
        lines.append("  " + "   ".join(cells).rstrip() + "\n")
    return "".join(lines)


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.removesuffix(" GiB").replace(",", "").replace(".", "").isdigit()
