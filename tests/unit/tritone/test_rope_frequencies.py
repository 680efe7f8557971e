from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.unit.tritone.toy_openvino import constant_layer, write_openvino_folder
from tritone.errors import ProvisionError
from tritone.rope_frequencies import base_frequencies, scaled_frequencies, set_frequencies

LLAMA_3_1 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192.0,
}


def test_base_frequencies() -> None:
    np.testing.assert_allclose(base_frequencies(10000.0, 8), [1, 0.1, 0.01, 0.001])


def test_linear_scaling_slows_all() -> None:
    np.testing.assert_allclose(scaled_frequencies(np.array([1, 0.1]), "linear", {"factor": 4.0}), [0.25, 0.025])


def test_llama3_scaling_is_that_of_the_paper_for_each_frequency() -> None:
    frequencies = base_frequencies(500000.0, 128)
    scaled = scaled_frequencies(frequencies, "llama3", LLAMA_3_1)
    kinds = []
    for frequency, result in zip(frequencies, scaled, strict=True):
        wavelength = 2 * math.pi / frequency
        if wavelength < 8192 / 4:
            kind, expected = "kept", frequency
        elif wavelength > 8192 / 1:
            kind, expected = "slowed", frequency / 8
        else:
            smooth = (8192 / wavelength - 1) / (4 - 1)
            kind, expected = "between", (1 - smooth) * frequency / 8 + smooth * frequency
        kinds.append(kind)
        assert result == pytest.approx(expected, rel=1e-12)
    assert list(dict.fromkeys(kinds)) == ["kept", "between", "slowed"]


@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_only_the_frequencies_are_replaced(dtype: str, tmp_path: Path) -> None:
    old, new, other = base_frequencies(1e7, 8), np.array([1.0, 0.5, 0.25, 0.125]), np.array([1.0, 2.0, 3.0, 4.0])
    folder = write_openvino_folder(tmp_path, ("f16", other), (dtype, old), ("f32", other))
    before, text = (folder / "openvino_model.bin").read_bytes(), (folder / "openvino_model.xml").read_text()
    set_frequencies(folder, old, new)
    size = {"f16": 8, "f32": 16}[dtype]
    replaced = constant_layer(dtype, "1, 4, 1", 11, size)
    assert text.count(replaced) == 1
    expected = text.replace(replaced, constant_layer("f32", "1, 4, 1", 64, 16).replace("F32", "FP32"))
    assert (folder / "openvino_model.xml").read_text().split("?>\n")[1] == expected
    weights = (folder / "openvino_model.bin").read_bytes()
    assert weights[: len(before)] == before
    assert np.frombuffer(weights[64:], "<f4").tolist() == new.tolist()


@pytest.mark.parametrize("count", [0, 2])
def test_other_models_are_not_touched(count: int, tmp_path: Path) -> None:
    old = base_frequencies(10000.0, 8)
    folder = write_openvino_folder(tmp_path, *[("f32", old)] * count, ("f32", np.array([1.0, 2.0, 3.0, 4.0])))
    before = [(folder / name).read_bytes() for name in ("openvino_model.bin", "openvino_model.xml")]
    with pytest.raises(ProvisionError, match=f"has {count} constants with the rotary frequencies, not one"):
        set_frequencies(folder, old, old / 2)
    assert [(folder / name).read_bytes() for name in ("openvino_model.bin", "openvino_model.xml")] == before
