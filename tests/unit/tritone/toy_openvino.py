"""What OpenVINO writes: a description of constants, and their numbers."""

from __future__ import annotations

from pathlib import Path

from tritone.rope_frequencies import Frequencies


def write_openvino_folder(folder: Path, *constants: tuple[str, Frequencies]) -> Path:
    """A model of these constants behind three bytes, as OpenVINO writes them, and of others that are none of them."""
    layers = [constant_layer("u8", "3", 0, 3), '<layer type="Reshape"><data special_zero="true" /></layer>']
    data = b"abc"
    for dtype, constant in constants:
        numbers = constant.astype({"f16": "<f2", "f32": "<f4"}[dtype]).tobytes()
        layers.append(constant_layer(dtype, f"1, {len(constant)}, 1", len(data), len(numbers)))
        data += numbers
    (folder / "openvino_model.xml").write_text(f"<net><layers>{''.join(layers)}</layers></net>")
    (folder / "openvino_model.bin").write_bytes(data)
    return folder


def constant_layer(dtype: str, shape: str, offset: int, size: int) -> str:
    """A constant as OpenVINO describes it; `size` in bytes."""
    data = f'<data element_type="{dtype}" shape="{shape}" offset="{offset}" size="{size}" />'
    return f'<layer type="Const">{data}<output><port id="0" precision="{dtype.upper()}" /></output></layer>'
