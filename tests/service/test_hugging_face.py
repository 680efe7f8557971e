"""Hugging Face folders on OpenVINO: what is computed from converted weights, and the bundled model as such a folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.tritone.toy_safetensors import CONFIG, HEAD_SIZE, toy_weights, write_safetensors, write_toy_folder
from tritone.bundled_model import bundled_model
from tritone.cache import cache_dir
from tritone.openvino_folder import openvino_folder

from .bare_openvino import bare_ids
from .reference_decoder import greedy_ids
from .serving import generate, serve

pytestmark = pytest.mark.service

QUESTION = json.dumps([{"role": "user", "content": "What is the capital of France?"}])
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

NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
}


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


def test_bundled_model_answers_the_same_from_safetensors(tmp_path: Path) -> None:
    bundled = bundled_model()
    folder = tmp_path / "SmolLM2"
    folder.mkdir()
    for name in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(bundled / name, folder / name)
    weights = _weights(next(bundled.glob("*.gguf")))
    write_safetensors(folder / "model.safetensors", weights, "F16")
    variables = {"TRITONE_CACHE": str(_cache_of_its_own(tmp_path / "cache"))}
    for log in ("first", "again"):
        with serve(tmp_path / log, folder, "--max-model-len", "1024", engine="openvino", variables=variables) as server:
            answer = generate(server, "smollm2", messages=QUESTION)
            assert answer["text_output"] == "The capital of France is Paris."
            assert (answer["finish_reason"], answer["num_input_tokens"], answer["num_output_tokens"]) == ("stop", 37, 8)
            assert ("Reading the weights of SmolLM2" in server.log.read_text()) == (log == "first")
    assert len(list((tmp_path / "cache").glob("openvino-*"))) == 1


def _cache_of_its_own(folder: Path) -> Path:
    """With what is in the usual one: a converted model is too large to be left there."""
    folder.mkdir()
    for entry in cache_dir().iterdir():
        if entry.name != "locks" and not entry.name.startswith("openvino-"):
            (folder / entry.name).symlink_to(entry)
    return folder


def _weights(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The weights of a Llama's GGUF file as Hugging Face has them, not quantized."""
    reader = gguf.GGUFReader(path)
    size = reader.fields["llama.rope.dimension_count"].contents()
    weights = {}
    for tensor in reader.tensors:
        numbers = gguf.dequantize(tensor.data, tensor.tensor_type).reshape([int(n) for n in tensor.shape[::-1]])
        *layer, name, _ = tensor.name.split(".")
        if name in ("attn_q", "attn_k"):
            pairs = numbers.reshape(-1, size // 2, 2, numbers.shape[1])
            numbers = np.concatenate([pairs[:, :, 0], pairs[:, :, 1]], axis=1).reshape(numbers.shape)
        prefix = f"model.layers.{layer[1]}." if layer else ""
        weights[f"{prefix}{NAMES[name]}.weight"] = numbers
    return weights
