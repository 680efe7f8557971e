"""Gives a converted model its rotary frequencies. Runs in our process.

OpenVINO GenAI's reader of GGUF files knows no scaling of them, and writes them as float16 where it can: too coarse for
positions in the thousands. They are one constant of the model.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tritone.errors import ProvisionError

SCALING_KEYS = {
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}
"""What rope_scaling in a config.json must have, by its rope_type."""

Frequencies = npt.NDArray[np.float64]

_ALIGNMENT = 64  # bytes, of a constant


def base_frequencies(base: float, head_size: int) -> Frequencies:
    """How far each pair of a head turns from one token to the next, in radians."""
    return np.asarray(base ** (-np.arange(0, head_size, 2) / head_size))


def scaled_frequencies(frequencies: Frequencies, scaling: str, given: dict[str, float]) -> Frequencies:
    """The frequencies made slower by a factor: all (linear), or those that turn seldom within the context (llama3).

    llama3's other factors are turns: up to the low one the frequency is slowed, from the high one on it stays.
    """
    if scaling == "linear":
        return frequencies / given["factor"]
    turns = given["original_max_position_embeddings"] * frequencies / (2 * np.pi)
    kept = np.interp(turns, [given["low_freq_factor"], given["high_freq_factor"]], [0, 1])
    return np.asarray(frequencies * (kept + (1 - kept) / given["factor"]))


def set_frequencies(openvino_folder: Path, old: Frequencies, new: Frequencies) -> None:
    """Put `new` in the place of the one constant that is `old`. Raises ProvisionError if there is not exactly one."""
    xml, weights = openvino_folder / "openvino_model.xml", openvino_folder / "openvino_model.bin"
    model = ElementTree.parse(xml)
    constants = [
        (data, port)
        for layer in model.iterfind(".//layer[@type='Const']")
        for data, port in zip(layer.iterfind("data"), layer.iterfind("output/port"), strict=True)
        if _holds(data.attrib, old, weights)
    ]
    if len(constants) != 1:
        raise ProvisionError(f"OpenVINO's model has {len(constants)} constants with the rotary frequencies, not one")
    data, port = constants[0]
    offset = -(-weights.stat().st_size // _ALIGNMENT) * _ALIGNMENT
    with weights.open("r+b") as file:
        file.seek(offset)
        size = file.write(new.astype("<f4").tobytes())
    data.attrib.update(element_type="f32", offset=str(offset), size=str(size))
    port.set("precision", "FP32")
    model.write(xml, encoding="utf-8", xml_declaration=True)


def _holds(data: dict[str, str], numbers: Frequencies, weights: Path) -> bool:
    dtype = {"f16": "<f2", "f32": "<f4"}.get(data["element_type"])
    if dtype is None or data["shape"] != f"1, {len(numbers)}, 1":
        return False
    constant = np.fromfile(weights, dtype, len(numbers), offset=int(data["offset"]))
    return np.allclose(constant, numbers, rtol=1e-3, atol=1e-7)  # as near as a float16 can be
