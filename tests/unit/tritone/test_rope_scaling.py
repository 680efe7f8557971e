from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tritone.errors import ProvisionError
from tritone.rope_scaling import Frequencies, base_frequencies, scaled_frequencies, set_frequencies

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


def _openvino_folder(folder: Path, *constants: Frequencies) -> Path:
    """A model of these constants behind three bytes, as OpenVINO writes them, and of others that are none of them."""
    layers = ['<data element_type="u8" shape="3" offset="0" size="3" />', '<data special_zero="true" />']
    data = b"abc"
    for constant in constants:
        layers.append(f'<data element_type="f32" shape="1, {len(constant)}, 1" offset="{len(data)}" size="16" />')
        data += constant.astype("<f4").tobytes()
    body = "".join(f'<layer type="Const">{layer}</layer>' for layer in layers)
    (folder / "openvino_model.xml").write_text(f"<net><layers>{body}</layers></net>")
    (folder / "openvino_model.bin").write_bytes(data)
    return folder


def test_only_the_frequencies_are_written_over(tmp_path: Path) -> None:
    old, new, other = base_frequencies(10000.0, 8), np.array([1.0, 0.5, 0.25, 0.125]), np.array([1.0, 2.0, 3.0, 4.0])
    set_frequencies(_openvino_folder(tmp_path, other, old, other), old, new)
    written = (tmp_path / "openvino_model.bin").read_bytes()
    assert written[:3] == b"abc"
    assert np.frombuffer(written[3:], "<f4").tolist() == [*other, *new, *other]


@pytest.mark.parametrize("count", [0, 2])
def test_other_models_are_not_touched(count: int, tmp_path: Path) -> None:
    old = base_frequencies(10000.0, 8)
    folder = _openvino_folder(tmp_path, *[old] * count, np.array([1.0, 2.0, 3.0, 4.0]))
    before = (folder / "openvino_model.bin").read_bytes()
    with pytest.raises(ProvisionError, match=f"has {count} constants with the rotary frequencies, not one"):
        set_frequencies(folder, old, old / 2)
    assert (folder / "openvino_model.bin").read_bytes() == before
