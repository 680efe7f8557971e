"""What a model folder says of itself: its config.json, how it is quantized, and the headers of its safetensors files.

No weights are read. A file of the format is an 8-byte length (little-endian), a JSON header and then the numbers.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from build_engines.errors import BuildError

INDEX = "model.safetensors.index.json"
_LONGEST_HEADER = 100_000_000  # bytes, as the format's own library has it


@dataclass(frozen=True)
class Checkpoint:
    """`config` is the language model's part of config.json; `is_part` tells that there is another part.

    `elements` and `stored` are numbers and bytes by tensor name, {} where the folder has no safetensors files.
    """

    config: Mapping[str, Any]
    is_part: bool
    elements: Mapping[str, int]
    stored: Mapping[str, int]

    @property
    def stored_bytes(self) -> int:
        """All tensors as they are stored, in bytes."""
        return sum(self.stored.values())


def read_checkpoint(path: Path) -> Checkpoint:
    """A Hugging Face folder, or a config.json alone. Raises BuildError naming the file and what is wrong with it."""
    folder = path.parent if path.is_file() else path
    config = read_object(path if path.is_file() else path / "config.json")
    if quantized := _read_optional(folder / "hf_quant_config.json"):  # as NVIDIA's ModelOpt writes it
        config = {**config, "quantization_config": quantized.get("quantization")}
    part = config.get("text_config")  # models that also see or hear nest the language model's
    headers = [] if path.is_file() else [_read_header(file) for file in _weight_files(folder)]
    tensors = {name: entry for header in headers for name, entry in header.items()}
    return Checkpoint(
        {**config, **part} if isinstance(part, dict) else config,
        isinstance(part, dict),
        {name: math.prod(entry["shape"]) for name, entry in tensors.items()},
        {name: entry["data_offsets"][1] - entry["data_offsets"][0] for name, entry in tensors.items()},
    )


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in this file. Raises BuildError."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BuildError(f"model: {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise BuildError(f"model: {path} is not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise BuildError(f"model: {path} holds {type(content).__name__}, not a JSON object")
    return content


def _read_optional(path: Path) -> dict[str, Any]:
    return read_object(path) if path.is_file() else {}


def _weight_files(folder: Path) -> list[Path]:
    weight_map = _read_optional(folder / INDEX).get("weight_map")
    if not isinstance(weight_map, dict):
        whole = folder / "model.safetensors"
        return [whole] if whole.is_file() else sorted(folder.glob("*.safetensors"))
    files = [folder / name for name in sorted({str(file) for file in weight_map.values()})]
    there = [file for file in files if file.is_file()]
    if there and len(there) < len(files):
        missing = ", ".join(file.name for file in files if file not in there)
        raise BuildError(f"model: {folder} is incomplete: {INDEX} names {missing}, which it does not have")
    return there


def _read_header(file: Path) -> dict[str, dict[str, Any]]:
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            if length > min(_LONGEST_HEADER, file.stat().st_size - 8):
                raise ValueError(f"a header of {length} bytes")
            header = json.loads(stream.read(length))
        header.pop("__metadata__", None)
        for entry in header.values():
            begin, end = entry["data_offsets"]
            if not 0 <= begin <= end <= file.stat().st_size - 8 - length or min(entry["shape"], default=0) < 0:
                raise ValueError("a tensor ends behind the file's end")
    except (OSError, struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BuildError(f"model: {file} is not a readable safetensors file, or not all of it: {error}") from None
    return dict(header)
