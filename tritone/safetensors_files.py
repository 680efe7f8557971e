"""Finds the tensors in a Hugging Face folder's .safetensors files. Runs in our process; no weights are read yet.

A file is a JSON header and then the numbers. It is read here because the safetensors package gives numpy no bfloat16.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tritone.errors import ModelError
from tritone.model_limits import read_json

INDEX = "model.safetensors.index.json"

_NUMPY_TYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}  # numpy has no bfloat16: these are its bits
_LONGEST_HEADER = 100_000_000  # bytes, as the format's own library has it


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor lies; `dtype` is the format's name of it."""

    name: str
    file: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int

    @property
    def is_float(self) -> bool:
        """Whether its numbers can be read, and are not quantized."""
        return self.dtype in _NUMPY_TYPES

    def mapped(self) -> npt.NDArray[Any]:
        """The numbers as they lie in the file, read as they are used."""
        return np.memmap(self.file, _NUMPY_TYPES[self.dtype], "r", self.offset, self.shape)


def weight_files(folder: Path) -> list[Path]:
    """The files that hold the model: those of the index if there is one, else model.safetensors, else all.

    Raises ModelError naming the files that the index has and the folder has not.
    """
    if not (folder / INDEX).is_file():
        whole = folder / "model.safetensors"
        return [whole] if whole.is_file() else sorted(folder.glob("*.safetensors"))
    weight_map = read_json(folder / INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelError(f"{folder / INDEX} has no weight_map")
    files = [folder / name for name in sorted({str(file) for file in weight_map.values()})]
    if missing := [file.name for file in files if not file.is_file()]:
        raise ModelError(f"{folder} is incomplete: {INDEX} names {', '.join(missing)}, which it does not have")
    return files


def find_tensors(files: list[Path]) -> dict[str, StoredTensor]:
    """The tensors of these files by name. Raises ModelError for a file that is damaged or cut short."""
    found: dict[str, StoredTensor] = {}
    for file in files:
        for tensor in _read_header(file):
            if tensor.name in found:
                raise ModelError(f"{tensor.name} is in {found[tensor.name].file} and again in {file}")
            found[tensor.name] = tensor
    return found


def _read_header(file: Path) -> list[StoredTensor]:
    size = file.stat().st_size
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            if length > min(_LONGEST_HEADER, size - 8):
                raise ValueError(f"a header of {length} bytes")
            header = json.loads(stream.read(length))
        entries = [(name, entry) for name, entry in header.items() if name != "__metadata__"]
        tensors = [_tensor(file, name, entry, 8 + length, size) for name, entry in entries]
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{file} is not a readable safetensors file, or not all of it: {error}") from error
    return tensors


def _tensor(file: Path, name: str, entry: dict[str, Any], data_start: int, file_size: int) -> StoredTensor:
    begin, end = entry["data_offsets"]
    tensor = StoredTensor(name, file, entry["dtype"], tuple(entry["shape"]), data_start + begin)
    if data_start + end > file_size:
        raise ValueError(f"{name} ends behind the file's end")
    if tensor.is_float and math.prod(tensor.shape) * np.dtype(_NUMPY_TYPES[tensor.dtype]).itemsize != end - begin:
        raise ValueError(f"{name} has {end - begin} bytes, which is not {tensor.dtype} of shape {tensor.shape}")
    return tensor
