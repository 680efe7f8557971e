"""Finds the tensors in a GGUF file and unpacks their numbers, quantized or not. Runs in our process.

The file is mapped, not read: only the rows asked for are in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tritone.errors import ModelError

Array = npt.NDArray[Any]

_FLOATS = ("F32", "F16", "BF16")


@dataclass(frozen=True)
class PackedTensor:
    """A tensor as it lies in a GGUF file; `number_format` is GGUF's name of it, the shape has rows first."""

    name: str
    number_format: str
    shape: tuple[int, ...]
    data: Array

    @property
    def dtype(self) -> str:
        """What the numbers are kept in: F32, F16 and BF16 as they are, quantized ones as F16."""
        return self.number_format if self.number_format in _FLOATS else "F16"

    def numbers(self, start: int, stop: int) -> npt.NDArray[np.float32]:
        """The rows from `start` to `stop`, (rows, columns); a vector is one row."""
        from gguf import GGMLQuantizationType, dequantize

        rows = self.data.reshape(int(np.prod(self.shape[:-1])), -1)[start:stop]
        with np.errstate(all="ignore"):  # the scales of a damaged file
            return np.asarray(dequantize(rows, GGMLQuantizationType[self.number_format]))


def map_tensors(gguf: Path) -> dict[str, PackedTensor]:
    """The tensors of the file by name.

    Raises ModelError if it is damaged or cut short, or has a number format that cannot be unpacked.
    """
    from gguf import GGUFReader  # reading goes by way of the vocabulary, which takes seconds

    try:
        tensors = GGUFReader(gguf).tensors
    except (ValueError, KeyError, IndexError, OverflowError) as error:
        raise ModelError(f"{gguf} is not a readable GGUF file, or not all of it: {error}") from error
    if unknown := sorted({tensor.tensor_type.name for tensor in tensors if not _is_known(tensor.tensor_type)}):
        raise ModelError(f"{gguf} has numbers of the format {', '.join(unknown)}, which cannot be unpacked")
    return {
        tensor.name: PackedTensor(
            tensor.name, tensor.tensor_type.name, tuple(reversed(tensor.shape.tolist())), tensor.data
        )
        for tensor in tensors
    }


def _is_known(number_format: Any) -> bool:
    from gguf import GGML_QUANT_SIZES, dequantize

    _, block_bytes = GGML_QUANT_SIZES[number_format]
    try:
        dequantize(np.zeros((1, block_bytes), np.uint8), number_format)
    except NotImplementedError:
        return False
    return True
