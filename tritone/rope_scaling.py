"""Gives a converted model the rotary frequencies of a longer context. Runs in our process.

OpenVINO GenAI's reader of GGUF files knows none but those of the base; they are one constant of the model it writes.
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
    """Write `new` over the one constant that is `old`. Raises ProvisionError if there is not exactly one."""
    shape = f"1, {len(old)}, 1"
    layers = ElementTree.parse(openvino_folder / "openvino_model.xml").iter("data")
    offsets = {int(data.attrib["offset"]) for data in layers if data.get("shape") == shape and "offset" in data.attrib}
    weights = np.memmap(openvino_folder / "openvino_model.bin", np.uint8, "r+")
    found = [
        constant
        for constant in (weights[offset : offset + 4 * len(old)].view("<f4") for offset in offsets)
        if len(constant) == len(old) and np.allclose(constant, old, rtol=1e-4, atol=0)
    ]
    if len(found) != 1:
        raise ProvisionError(f"OpenVINO's model has {len(found)} constants with the rotary frequencies, not one")
    found[0][:] = new
    weights.flush()
