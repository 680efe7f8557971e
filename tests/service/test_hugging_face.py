"""Hugging Face folders on OpenVINO: what is computed from converted weights. test_engine_parity has a real model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.tritone.toy_safetensors import CONFIG, HEAD_SIZE, toy_weights, write_toy_folder
from tritone.openvino_folder import openvino_folder

from .bare_openvino import bare_ids
from .reference_decoder import greedy_ids

pytestmark = pytest.mark.service

PROMPT = [5, 99, 200, 7, 300, 12]
EXACT = {"KV_CACHE_PRECISION": "f32", "INFERENCE_PRECISION_HINT": "f32"}

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
PLAIN = CONFIG["rope_theta"] ** (-np.arange(0, HEAD_SIZE, 2) / HEAD_SIZE)
# 32 * frequency / 2 pi is 5.1 turns, 2.1 (so 0.38 of the way from 1 to 4), 0.9 and less
SLOWED = PLAIN * [1, 0.38 + 0.62 / 4, *[1 / 4] * 6]


@pytest.mark.parametrize(
    ("class_name", "config", "frequencies"),
    [
        ("LlamaForCausalLM", {}, PLAIN),
        ("LlamaForCausalLM", {"tie_word_embeddings": True}, PLAIN),
        ("LlamaForCausalLM", {"rope_scaling": LLAMA3}, SLOWED),
        ("MistralForCausalLM", {"sliding_window": None}, PLAIN),
        ("Qwen2ForCausalLM", {}, PLAIN),
        ("Qwen2ForCausalLM", {"rope_scaling": {"type": "linear", "factor": 2.0}}, PLAIN / 2),
        ("Qwen3ForCausalLM", {}, PLAIN),
    ],
)
def test_openvino_computes_what_the_folder_says(
    class_name: str, config: dict[str, Any], frequencies: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITONE_CACHE", str(tmp_path / "cache"))
    weights = toy_weights(class_name, seed=2)
    if config.get("tie_word_embeddings"):
        del weights["lm_head.weight"]
    config = {"rms_norm_eps": 0.01, **config}  # small, so that attention is not all the same
    folder = write_toy_folder(tmp_path / "model", class_name, weights, dtype="BF16", shards=2, **config)
    converted = openvino_folder(folder, lambda what, done, total: None)
    expected = greedy_ids(weights, {**CONFIG, **config, "frequencies": frequencies}, PROMPT, 24)
    assert bare_ids(converted, PROMPT, 24, EXACT) == expected
