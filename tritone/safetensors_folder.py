"""Makes a Hugging Face folder with safetensors of a GGUF file, for engines that read no GGUF. Runs in our process.

Quantized numbers become float16. That changes a number by at most 2^-11 of itself, or 3e-8 if it is tiny: 0.6 % of the
step between two neighbours for SmolLM2's Q4_1 and 6 % for its Q8_0 at worst, of which quantizing has lost up to a half.
OpenVINO's own reader of GGUF rounds the minimum of each Q4_1 block to a whole step, so its answers can be others.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tritone.cache import artifact, cache_dir, files_digest
from tritone.errors import ModelError, ProvisionError
from tritone.gguf_layout import ARCHITECTURES, GgufLayout, gguf_layout
from tritone.gguf_metadata import read_gguf
from tritone.gguf_tensors import PackedTensor, map_tensors
from tritone.model_limits import read_json
from tritone.progress import Progress
from tritone.rope_frequencies import base_frequencies, scaled_frequencies

# Part of a converted folder's name in the cache: raise it whenever what is written here changes.
_REVISION = 1

_REQUIRED = ("config.json", "tokenizer.json")
_COPIED = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
)
# What gguf_layout refuses for the sake of OpenVINO's reader, and what has no tensors.
_NOT_OF_THE_LAYOUT = (
    "hidden_act",
    "layer_types",
    "partial_rotary_factor",
    "quantization_config",
    "rope_parameters",
    "rope_scaling",
    "sliding_window",
)
_ROPE_DIVISORS = "rope_freqs.weight"
_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
"""Of all Llama 3 models that scale; GGUF keeps what comes of it."""

_BLOCK = 1 << 20  # numbers that are unpacked at once
_TORCH_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_ITEM_SIZES = {"F32": 4, "F16": 2, "BF16": 2}
_LARGEST = {"F32": 3.4028234e38, "F16": 65504.0, "BF16": 3.3895314e38}
_ENCODERS: dict[str, Callable[[Any], Any]] = {
    "F32": lambda numbers: numbers.astype("<f4"),
    "F16": lambda numbers: numbers.astype("<f2"),
    "BF16": lambda numbers: (numbers.view(np.uint32) >> 16).astype("<u2"),  # its lower half is 0
}

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class _Source:
    """Where a tensor comes from; with `heads`, the rows of each are interleaved."""

    packed: PackedTensor
    heads: int

    @property
    def size(self) -> int:
        """Its bytes in safetensors."""
        return math.prod(self.packed.shape) * _ITEM_SIZES[self.packed.dtype]


@dataclass(frozen=True)
class _Plan:
    """The config.json to write, its dtype, and the tensors by their Hugging Face name in the order of the file."""

    config: dict[str, Any]
    dtype: str
    sources: dict[str, _Source]

    @property
    def size(self) -> int:
        return sum(source.size for source in self.sources.values())


def safetensors_folder(gguf: Path, tokenizer_dir: Path, progress: Progress) -> Path:
    """The Hugging Face folder of a GGUF file and of the JSON files beside it; made in the cache on the first call.

    Raises ModelError if a file is damaged, incomplete or of a model that is not supported, ProvisionError if space is
    missing.
    """
    for name in _REQUIRED:
        if not (tokenizer_dir / name).is_file():
            raise ModelError(f"there is no {tokenizer_dir / name}")
    copied = [tokenizer_dir / name for name in _COPIED if (tokenizer_dir / name).is_file()]
    name = f"safetensors-{files_digest([gguf, tokenizer_dir / 'config.json', *copied], _REVISION)}"
    return artifact(name, lambda made: _convert(gguf, tokenizer_dir, copied, made, progress))


def hugging_face_order(weight: Array, heads: int) -> Array:
    """The rows of a Llama's q or k matrix as Hugging Face has them: the halves of each head one after the other.

    >>> hugging_face_order(np.array([0, 2, 1, 3, 4, 6, 5, 7]), heads=2).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    pairs = weight.reshape(heads, -1, 2, *weight.shape[1:])
    return pairs.swapaxes(1, 2).reshape(weight.shape)


def _convert(gguf: Path, tokenizer_dir: Path, copied: list[Path], made: Path, progress: Progress) -> None:
    plan = _plan(gguf, tokenizer_dir)
    if (free := shutil.disk_usage(made).free) < plan.size:
        raise ProvisionError(
            f"converting {gguf} takes {plan.size / 1e9:.1f} GB in the cache {cache_dir()}, and {free / 1e9:.1f} GB are "
            "free: free some space, or set TRITONE_CACHE to a folder on another disk"
        )
    for file in copied:
        shutil.copy(file, made / file.name)
    (made / "config.json").write_text(json.dumps(plan.config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    _write(plan, gguf, made / "model.safetensors", progress)


def _plan(gguf: Path, tokenizer_dir: Path) -> _Plan:
    values = read_gguf(gguf).values
    tensors = map_tensors(gguf)
    config = read_json(tokenizer_dir / "config.json")
    config["tie_word_embeddings"] = "output.weight" not in tensors
    layout = _layout(config, values.get("general.architecture"), gguf, tokenizer_dir)
    divisors = tensors.pop(_ROPE_DIVISORS, None)
    _check(layout, tensors, gguf)
    sources = {name: _Source(tensors[tensor.name], tensor.heads) for name, tensor in layout.tensors.items()}
    by_alignment = sorted(sources.items(), key=lambda item: -_ITEM_SIZES[item[1].packed.dtype])
    if not _is_scaled(config) and (scaling := _rope_scaling(values, divisors, layout, gguf)):
        key = "rope_parameters" if "rope_parameters" in config else "rope_scaling"
        config[key] = {**(config.get(key) or {}), **scaling}
    for key in ("quantization_config", "dtype"):
        config.pop(key, None)
    dtype = _main_dtype(sources)
    return _Plan({**config, "torch_dtype": _TORCH_DTYPES[dtype]}, dtype, dict(by_alignment))


def _layout(config: dict[str, Any], architecture: Any, gguf: Path, tokenizer_dir: Path) -> GgufLayout:
    named = (config.get("architectures") or ["no architecture"])[0]
    if architecture is None or ARCHITECTURES.get(named) != architecture:
        raise ModelError(
            f"{gguf} is of the architecture {architecture}, and {tokenizer_dir / 'config.json'} of {named}"
        )
    if architecture == "llama" and config.get("attention_bias"):
        raise ModelError(f"{gguf} has attention_bias, which is not supported for {named}")
    relevant = {key: value for key, value in config.items() if key not in _NOT_OF_THE_LAYOUT}
    return gguf_layout(relevant, tokenizer_dir)


def _check(layout: GgufLayout, tensors: dict[str, PackedTensor], gguf: Path) -> None:
    """Raise ModelError unless the file has each tensor of the layout, in its shape, and no other."""
    wanted = {tensor.name: tensor.shape for tensor in layout.tensors.values()}
    if missing := [name for name in wanted if name not in tensors]:
        raise ModelError(f"{gguf} is incomplete: it has no {_listed(missing)}")
    if unknown := [name for name in tensors if name not in wanted]:
        raise ModelError(f"{gguf} has the tensor {_listed(unknown)}, which is none of its model's by config.json")
    for name, shape in wanted.items():
        if tensors[name].shape != shape:
            raise ModelError(f"{name} in {gguf} has the shape {tensors[name].shape}, and by config.json {shape}")


def _listed(names: list[str]) -> str:
    return names[0] + (f" (and {len(names) - 1} more)" if names[1:] else "")


def _main_dtype(sources: dict[str, _Source]) -> str:
    """What most of the bytes are; engines compute in it."""
    sizes = dict.fromkeys(_TORCH_DTYPES, 0)
    for source in sources.values():
        sizes[source.packed.dtype] += source.size
    return max(sizes, key=lambda dtype: sizes[dtype])


def _is_scaled(config: dict[str, Any]) -> bool:
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    return bool(rope.get("rope_type", rope.get("type", "default")) != "default")


def _rope_scaling(
    values: dict[str, Any], divisors: PackedTensor | None, layout: GgufLayout, gguf: Path
) -> dict[str, Any] | None:
    """What a config.json made from the file leaves out. Raises ModelError if that cannot be said in one."""
    prefix = f"{layout.architecture}.rope"
    if divisors is not None:
        return _llama3_scaling(values.get(f"{prefix}.freq_base", 10000.0), divisors, layout, gguf)
    factor = values.get(f"{prefix}.scaling.factor", values.get(f"{prefix}.scale_linear", 0.0))
    kind = values.get(f"{prefix}.scaling.type", "linear")
    if kind == "none" or (kind == "linear" and factor in (0.0, 1.0)):
        return None
    if kind != "linear":
        raise ModelError(f"{gguf} has {kind} rope scaling ({prefix}.scaling.type), and its config.json does not say so")
    return {"rope_type": "linear", "factor": factor}


def _llama3_scaling(base: float, divisors: PackedTensor, layout: GgufLayout, gguf: Path) -> dict[str, Any]:
    frequencies = base_frequencies(base, int(layout.values["attention.key_length"]))
    given = {"factor": float(divisors.numbers(0, 1).max()), **_LLAMA3}
    scaled = scaled_frequencies(frequencies, "llama3", given)
    if divisors.shape != frequencies.shape or not np.allclose(
        frequencies / divisors.numbers(0, 1)[0], scaled, rtol=1e-4, atol=0
    ):
        raise ModelError(
            f"{gguf} scales its rotary frequencies ({_ROPE_DIVISORS}) in another way than Llama 3, and its config.json "
            "does not say how"
        )
    return {"rope_type": "llama3", **given}


def _write(plan: _Plan, gguf: Path, path: Path, progress: Progress) -> None:
    """Write the file; a block of one tensor is in memory. Raises ModelError for a number that does not fit."""
    what, done = f"Unpacking the weights of {gguf.name}", 0
    with path.open("wb") as file:
        file.write(_header(plan.sources))
        for source in plan.sources.values():
            narrowest = min(source.packed.dtype, plan.dtype, key=lambda dtype: _LARGEST[dtype])
            for block in _blocks(source):
                _check_range(block, narrowest, f"{source.packed.name} in {gguf}")
                done += file.write(_ENCODERS[source.packed.dtype](block).data)
                progress(what, done, plan.size)


def _header(sources: dict[str, _Source]) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, source in sources.items():
        begin, end = end, end + source.size
        header[name] = {
            "dtype": source.packed.dtype,
            "shape": list(source.packed.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that the numbers are aligned
    return len(text).to_bytes(8, "little") + text


def _blocks(source: _Source) -> Iterator[Array]:
    """The numbers in Hugging Face's order, some whole heads or rows at a time."""
    *_, columns = shape = source.packed.shape
    rows = math.prod(shape[:-1])
    unit = rows // source.heads if source.heads else 1
    step = max(1, _BLOCK // (columns * unit)) * unit
    for start in range(0, rows, step):
        numbers = source.packed.numbers(start, start + step)
        yield hugging_face_order(numbers, len(numbers) // unit) if source.heads else numbers


def _check_range(numbers: Array, dtype: str, what: str) -> None:
    if not -_LARGEST[dtype] <= numbers.min() <= numbers.max() <= _LARGEST[dtype]:  # nor is a NaN
        raise ModelError(
            f"{what} has a number that is not finite, or too large for a {_TORCH_DTYPES[dtype]} ({_LARGEST[dtype]:.5g})"
        )
