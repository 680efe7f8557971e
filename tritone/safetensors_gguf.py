"""Writes the weights of a Hugging Face folder as a GGUF file, tensor by tensor. Runs in our process.

Matrices become F16, vectors F32. There is no tokenizer in the file: the folder's own is used.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tritone.errors import ModelError
from tritone.gguf_layout import GgufLayout, GgufTensor, gguf_layout, unsupported
from tritone.model_limits import read_json
from tritone.safetensors_files import StoredTensor, find_tensors, weight_files

_BLOCK = 1 << 24  # numbers that are converted at once
_LARGEST = 65504  # float16's; OpenVINO makes those of the F32 vectors, too
_MOSTLY_F16 = 1  # general.file_type

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class GgufPlan:
    """What is going to be written, and where its tensors lie, by their Hugging Face name."""

    layout: GgufLayout
    stored: dict[str, StoredTensor]

    @property
    def size(self) -> int:
        """The bytes of all tensors in GGUF."""
        return sum(map(_size, self.layout.tensors.values()))


def plan_gguf(folder: Path) -> GgufPlan:
    """How to write the Hugging Face `folder` as GGUF; no weights are read.

    Raises ModelError if the folder is incomplete or damaged, or its model is one that cannot be written.
    """
    stored = find_tensors(weight_files(folder))
    config = {"tie_word_embeddings": "lm_head.weight" not in stored, **read_json(folder / "config.json")}
    layout = gguf_layout(config, folder)
    _check(layout, stored, folder)
    return GgufPlan(layout, stored)


def write_gguf(plan: GgufPlan, gguf: Path, progress: Callable[[int], None]) -> None:
    """Write the new file `gguf`, telling `progress` the bytes done; at most one tensor is in memory.

    Raises ModelError for a number that does not fit.
    """
    from gguf import GGUFWriter

    logging.getLogger("gguf").setLevel(logging.WARNING)  # it says what it is going to write
    architecture, tensors = plan.layout.architecture, plan.layout.tensors
    writer = GGUFWriter(gguf, architecture)
    writer.add_file_type(_MOSTLY_F16)
    for key, value in plan.layout.values.items():
        add = writer.add_uint32 if isinstance(value, int) else writer.add_float32
        add(f"{architecture}.{key}", value)
    for tensor in tensors.values():
        writer.add_tensor_info(tensor.name, tensor.shape, _dtype(tensor), _size(tensor))
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        done = 0
        for name, tensor in tensors.items():
            writer.write_tensor_data(_converted(plan.stored[name], tensor))
            done += _size(tensor)
            progress(done)
    finally:
        writer.close()


def gguf_order(weight: Array, heads: int) -> Array:
    """The rows of a Llama's q or k matrix as GGUF has them: the halves of each head, that rotate together, interleaved.

    >>> gguf_order(np.arange(8), heads=2).tolist()
    [0, 2, 1, 3, 4, 6, 5, 7]
    """
    halves = weight.reshape(heads, 2, -1, *weight.shape[1:])
    return halves.swapaxes(1, 2).reshape(weight.shape)


def _check(layout: GgufLayout, stored: dict[str, StoredTensor], folder: Path) -> None:
    """Raise ModelError unless the files have each tensor of the layout, in its shape, and no other that matters."""
    if missing := [name for name in layout.tensors if name not in stored]:
        raise ModelError(f"{folder} is incomplete: there is no {_listed(missing)} in its .safetensors files")
    unused = {"lm_head.weight"}  # a copy of the embedding, if it is not in the layout
    others = [name for name in stored if name not in layout.tensors and name not in unused]
    if unknown := [name for name in others if not name.endswith(".rotary_emb.inv_freq")]:
        raise unsupported(folder, f"has the tensor {_listed(unknown)}")
    for name, tensor in layout.tensors.items():
        if not stored[name].is_float:
            raise unsupported(folder, f"is quantized ({name} is stored as {stored[name].dtype})")
        if stored[name].shape != tensor.shape:
            raise ModelError(
                f"{name} in {stored[name].file} has the shape {stored[name].shape}, and by config.json {tensor.shape}"
            )


def _listed(names: list[str]) -> str:
    return names[0] + (f" (and {len(names) - 1} more)" if names[1:] else "")


def _dtype(tensor: GgufTensor) -> np.dtype[Any]:
    return np.dtype(np.float32 if len(tensor.shape) == 1 else np.float16)


def _size(tensor: GgufTensor) -> int:
    return int(np.prod(tensor.shape)) * _dtype(tensor).itemsize


def _converted(stored: StoredTensor, tensor: GgufTensor) -> Array:
    """The numbers as GGUF has them. Raises ModelError for one that does not fit."""
    source, result = stored.mapped(), np.empty(stored.shape, _dtype(tensor))
    rows = max(1, _BLOCK * len(source) // source.size)
    for start in range(0, len(source), rows):
        block = result[start : start + rows]
        with np.errstate(over="ignore"):
            block[...] = _widened(source[start : start + rows], stored.dtype)
        if not -_LARGEST <= block.min() <= block.max() <= _LARGEST:  # nor is a NaN
            raise ModelError(
                f"{stored.name} in {stored.file} has a number that is not finite, or too large for a float16 (65504)"
            )
    return gguf_order(result, tensor.heads) if tensor.heads else result


def _widened(numbers: Array, dtype: str) -> Array:
    """A bfloat16 is the upper half of a float32."""
    return (numbers.astype(np.uint32) << 16).view(np.float32) if dtype == "BF16" else numbers
