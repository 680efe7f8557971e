"""Types of weights and of the KV cache: bytes, which GPU computes with them, and what a checkpoint is stored in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from build_engines.errors import BuildError
from build_engines.gpus import BF16_SM, FP4_SM, FP8_SM

DTYPES = {"float16": 2, "bfloat16": 2, "float32": 4}
"""Bytes a value."""

GROUP = 128  # weights of a row that share a scale; TensorRT-LLM's --group_size and --awq_block_size


@dataclass(frozen=True)
class Quantization:
    """`bytes_per_value` counts scales: it is for linear weights; all others stay in the model's dtype.

    `least_sm` is the first compute capability that runs it, `is_calibrated` whether it needs calibration data.
    """

    name: str
    bytes_per_value: float
    least_sm: int
    is_calibrated: bool
    says: str


QUANTIZATIONS = {
    one.name: one
    for one in (
        Quantization("fp8", 1.0, FP8_SM, True, "8-bit floats, weights and activations; a scale a tensor"),
        Quantization("int8_sq", 1.0, BF16_SM, True, "SmoothQuant: 8-bit integers, weights and activations"),
        Quantization("int8_wo", 1.0, BF16_SM, False, "8-bit integers, weights only; a scale a column"),
        Quantization("int4_awq", 0.5 + 2 / GROUP, BF16_SM, True, f"4-bit integers, weights only; a scale a {GROUP}"),
        Quantization("w4a8_awq", 0.5 + 2 / GROUP, FP8_SM, True, "4-bit integers, computed in 8-bit floats"),
        Quantization("nvfp4", 0.5 + 1 / 16, FP4_SM, True, "4-bit floats, weights and activations; a scale a 16"),
    )
}
"""What --quant takes, by TensorRT-LLM's --qformat names."""

KV_DTYPES = {"auto": None, "fp8": 1, "int8": 1}
"""Bytes a cached value; auto is the model's dtype."""

_STORED = {
    "gptq": Quantization("gptq", 0.5 + 2.5 / GROUP, BF16_SM, False, "as it is stored"),
    "awq": Quantization("awq", 0.5 + 2.5 / GROUP, BF16_SM, False, "as it is stored"),
    "fp8": Quantization("fp8", 1.0, FP8_SM, False, "as it is stored"),
    "fp8_block": Quantization("fp8", 1.0 + 4 / 128**2, FP8_SM, False, "as it is stored"),
    "nvfp4": Quantization("nvfp4", 0.5 + 1 / 16, FP4_SM, False, "as it is stored"),
    "mxfp4": Quantization("mxfp4", 0.5 + 1 / 32, BF16_SM, False, "as it is stored: experts only"),
}


def stored_quantization(config: Mapping[str, Any]) -> Quantization | None:
    """How the checkpoint is quantized already, None if it is not. Raises BuildError for a kind that is not known."""
    given = config.get("quantization_config")
    if not isinstance(given, Mapping):
        return None
    method = str(given.get("quant_method") or given.get("quant_algo") or "").lower()
    if method in ("", "none"):
        return None
    if method == "fp8" and given.get("weight_block_size"):
        return _STORED["fp8_block"]
    kind = {"w4a16_awq": "awq", "fp8_pb_wo": "fp8_block"}.get(method, method)
    bits = given.get("bits", 4)
    if kind not in _STORED or (kind in ("gptq", "awq") and bits not in (4, 8)):
        known = ", ".join(sorted({*_STORED, "w4a16_awq"} - {"fp8_block"}))
        raise BuildError(f"model: it is quantized with {method}, {bits} bits, which is not planned for; known: {known}")
    found = _STORED[kind]
    if bits == 8 and kind in ("gptq", "awq"):
        return Quantization(kind, 1 + 2.5 / GROUP, BF16_SM, False, found.says)
    return found


def model_dtype(config: Mapping[str, Any], asked: str, sm: int) -> str:
    """The dtype of what is not quantized: what was asked for, else the checkpoint's own, 32 bits as 16.

    Raises BuildError for a type that is not known or that the GPU does not have.
    """
    stored = str(config.get("torch_dtype") or config.get("dtype") or "bfloat16").removeprefix("torch.")
    dtype = ("bfloat16" if stored == "float32" else stored) if asked == "auto" else asked
    if dtype not in DTYPES:
        raise BuildError(f"dtype: {dtype!r} is not known; known: auto, {', '.join(DTYPES)}")
    if dtype == "bfloat16" and sm < BF16_SM:
        if asked == "auto":
            return "float16"
        raise BuildError(f"dtype: bfloat16 needs SM {BF16_SM} or newer, this GPU is SM {sm}; use --dtype float16")
    return dtype


def find_quantization(name: str, sm: int) -> Quantization:
    """What --quant names. Raises BuildError if it is unknown or the GPU cannot run it."""
    if name not in QUANTIZATIONS:
        raise BuildError(f"quant: {name!r} is not known; known: none, {', '.join(QUANTIZATIONS)}")
    check_sm(QUANTIZATIONS[name], sm, "quant")
    return QUANTIZATIONS[name]


def check_sm(quantization: Quantization, sm: int, option: str) -> None:
    """Raises BuildError where the GPU cannot run it, with those that it can."""
    if sm < quantization.least_sm:
        able = [name for name, one in QUANTIZATIONS.items() if sm >= one.least_sm]
        raise BuildError(
            f"{option}: {quantization.name} needs SM {quantization.least_sm} or newer, this GPU is SM {sm}; "
            f"it runs {', '.join(able) or 'none of those that are planned for'}"
        )


def kv_bytes(name: str, dtype: str, sm: int) -> int:
    """Bytes of one cached value. Raises BuildError."""
    if name not in KV_DTYPES:
        raise BuildError(f"kv_dtype: {name!r} is not known; known: {', '.join(KV_DTYPES)}")
    if name == "fp8" and sm < FP8_SM:
        raise BuildError(f"kv_dtype: fp8 needs SM {FP8_SM} or newer, this GPU is SM {sm}; int8 halves the cache, too")
    return KV_DTYPES[name] or DTYPES[dtype]
