from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.tritone.toy_safetensors import (
    HEAD_SIZE,
    HEADS,
    HIDDEN,
    KV_HEADS,
    LAYERS,
    toy_weights,
    write_safetensors,
    write_toy_folder,
)
from tritone import safetensors_gguf
from tritone.errors import ModelError
from tritone.safetensors_gguf import gguf_order, plan_gguf, write_gguf

LLAMA, MISTRAL, QWEN2, QWEN3 = (f"{name}ForCausalLM" for name in ("Llama", "Mistral", "Qwen2", "Qwen3"))

NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def _written(folder: Path) -> gguf.GGUFReader:
    path = folder / "model.gguf"
    write_gguf(plan_gguf(folder), path, lambda done: None)
    return gguf.GGUFReader(path)


def _tensors(reader: gguf.GGUFReader) -> dict[str, npt.NDArray[Any]]:
    return {tensor.name: tensor.data for tensor in reader.tensors}


def _gguf_name(name: str) -> str:
    whole = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    module, kind = name.rsplit(".", 1)
    if module in whole:
        return f"{whole[module]}.{kind}"
    number, part = module.removeprefix("model.layers.").split(".", 1)
    return f"blk.{number}.{NAMES[part]}.{kind}"


@pytest.mark.parametrize(
    ("class_name", "architecture"), [(LLAMA, "llama"), (MISTRAL, "llama"), (QWEN2, "qwen2"), (QWEN3, "qwen3")]
)
def test_every_tensor_and_size_is_written(class_name: str, architecture: str, tmp_path: Path) -> None:
    reader = _written(write_toy_folder(tmp_path / "model", class_name))
    values = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    assert values == {
        "general.architecture": architecture,
        "general.file_type": 1,
        f"{architecture}.block_count": 2,
        f"{architecture}.context_length": 64,
        f"{architecture}.embedding_length": 32,
        f"{architecture}.feed_forward_length": 48,
        f"{architecture}.attention.head_count": 4,
        f"{architecture}.attention.head_count_kv": 2,
        f"{architecture}.attention.key_length": 16,
        f"{architecture}.vocab_size": 320,
        f"{architecture}.attention.layer_norm_rms_epsilon": 0.5,
        f"{architecture}.rope.freq_base": 1000.0,
    }
    weights = toy_weights(class_name)
    tensors = _tensors(reader)
    assert sorted(tensors) == sorted(map(_gguf_name, weights))
    for name, numbers in weights.items():
        tensor = tensors[_gguf_name(name)]
        assert tensor.dtype == (np.float32 if numbers.ndim == 1 else np.float16)
        is_reordered = architecture == "llama" and name.endswith(("q_proj.weight", "k_proj.weight"))
        if not is_reordered:
            np.testing.assert_array_equal(tensor, numbers, err_msg=name)


def test_llama_heads_are_interleaved_row_by_row(tmp_path: Path) -> None:
    tensors = _tensors(_written(write_toy_folder(tmp_path / "model", LLAMA)))
    weights = toy_weights(LLAMA)
    for layer in range(LAYERS):
        for part, heads in (("q", HEADS), ("k", KV_HEADS)):
            source = weights[f"model.layers.{layer}.self_attn.{part}_proj.weight"]
            tensor = tensors[f"blk.{layer}.attn_{part}.weight"]
            for row in range(heads * HEAD_SIZE):
                head, place = divmod(row, HEAD_SIZE)
                pair, half = divmod(place, 2)
                np.testing.assert_array_equal(tensor[row], source[head * HEAD_SIZE + half * HEAD_SIZE // 2 + pair])


def test_order_of_two_heads_of_four_rows() -> None:
    assert gguf_order(np.arange(8), heads=2).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
def test_number_formats_give_the_same_file(dtype: str, tmp_path: Path) -> None:
    _written(write_toy_folder(tmp_path / "exact"))
    _written(write_toy_folder(tmp_path / "model", dtype=dtype))
    assert (tmp_path / "model/model.gguf").read_bytes() == (tmp_path / "exact/model.gguf").read_bytes()


def test_float32_is_rounded_to_the_nearest_float16(tmp_path: Path) -> None:
    weights = toy_weights(QWEN2)
    weights["lm_head.weight"][:] = 0.1
    tensors = _tensors(_written(write_toy_folder(tmp_path / "model", QWEN2, weights)))
    assert set(tensors["output.weight"].ravel().tolist()) == {0.0999755859375}


def test_shards_give_the_same_file_and_others_are_not_read(tmp_path: Path) -> None:
    _written(write_toy_folder(tmp_path / "whole"))
    folder = write_toy_folder(tmp_path / "model", shards=3)
    (folder / "consolidated.safetensors").write_text("the same again, in its authors' own format")
    _written(folder)
    assert (folder / "model.gguf").read_bytes() == (tmp_path / "whole/model.gguf").read_bytes()


def test_shards_without_an_index_are_all_read(tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model", shards=2)
    (folder / "model.safetensors.index.json").unlink()
    assert len(plan_gguf(folder).stored) == len(toy_weights(LLAMA))
    write_safetensors(folder / "more.safetensors", {"model.norm.weight": np.zeros(HIDDEN)}, "F32")
    with pytest.raises(
        ModelError, match=r"model\.norm\.weight is in .*model-00002-.* and again in .*more\.safetensors"
    ):
        plan_gguf(folder)


def test_numbers_are_converted_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _written(write_toy_folder(tmp_path / "whole", dtype="BF16"))
    monkeypatch.setattr(safetensors_gguf, "_BLOCK", 100)
    _written(write_toy_folder(tmp_path / "model", dtype="BF16"))
    assert (tmp_path / "model/model.gguf").read_bytes() == (tmp_path / "whole/model.gguf").read_bytes()


def test_memory_holds_one_tensor(tmp_path: Path) -> None:
    weights = toy_weights(LLAMA)
    inner = 20_000
    for name in [name for name in weights if ".mlp." in name]:
        weights[name] = np.zeros((HIDDEN, inner) if "down" in name else (inner, HIDDEN), np.float32)
    plan = plan_gguf(write_toy_folder(tmp_path / "model", weights=weights, dtype="F16", intermediate_size=inner))
    tracemalloc.start()
    write_gguf(plan, tmp_path / "model.gguf", lambda done: None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    largest = inner * HIDDEN * 2
    assert plan.size > 6 * largest
    assert peak < 2.5 * largest


def test_progress_is_told_in_bytes(tmp_path: Path) -> None:
    plan = plan_gguf(write_toy_folder(tmp_path / "model"))
    seen: list[int] = []
    write_gguf(plan, tmp_path / "model.gguf", seen.append)
    assert seen == sorted(seen)
    assert len(seen) == len(plan.layout.tensors)
    assert seen[-1] == plan.size


@pytest.mark.parametrize(
    ("tied", "has_head", "names_output"),
    [(True, False, False), (True, True, False), (None, False, False), (None, True, True)],
)
def test_tied_embeddings_are_written_once(
    tied: bool | None, has_head: bool, names_output: bool, tmp_path: Path
) -> None:
    weights = toy_weights(LLAMA)
    if not has_head:
        del weights["lm_head.weight"]
    folder = write_toy_folder(tmp_path / "model", weights=weights, tie_word_embeddings=tied)
    assert ("output.weight" in _tensors(_written(folder))) == names_output


def test_defaults_of_older_configs(tmp_path: Path) -> None:
    weights = {name: numbers for name, numbers in toy_weights(LLAMA).items() if "self_attn" not in name}
    for layer in range(LAYERS):
        for part in "qkvo":
            weights[f"model.layers.{layer}.self_attn.{part}_proj.weight"] = np.zeros((HIDDEN, HIDDEN), np.float32)
        weights[f"model.layers.{layer}.self_attn.rotary_emb.inv_freq"] = np.zeros(HIDDEN // HEADS // 2, np.float32)
    absent = {"num_key_value_heads": None, "head_dim": None, "rope_theta": None, "hidden_act": None}
    layout = plan_gguf(write_toy_folder(tmp_path / "model", weights=weights, **absent)).layout
    assert [layout.values[f"attention.{key}"] for key in ("head_count_kv", "key_length")] == [HEADS, HIDDEN // HEADS]
    assert layout.values["rope.freq_base"] == 10000.0


def test_rope_parameters_of_transformers_5(tmp_path: Path) -> None:
    rope = {"rope_type": "default", "rope_theta": 500.0}
    folder = write_toy_folder(tmp_path / "model", rope_theta=None, rope_parameters=rope)
    assert plan_gguf(folder).layout.values["rope.freq_base"] == 500.0


def test_scaled_frequencies_are_kept_beside_the_file(tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model", rope_scaling={"type": "linear", "factor": 2.0})
    layout = plan_gguf(folder).layout
    assert layout.values["rope.freq_base"] == 1000.0
    np.testing.assert_allclose(layout.base_frequencies, 1000.0 ** (-np.arange(8) / 8))
    np.testing.assert_allclose(layout.frequencies, 1000.0 ** (-np.arange(8) / 8) / 2)
    plain = plan_gguf(write_toy_folder(tmp_path / "other")).layout
    assert plain.frequencies.tolist() == plain.base_frequencies.tolist()


def test_unused_windows_are_no_windows(tmp_path: Path) -> None:
    layer_types = ["full_attention"] * LAYERS
    folder = write_toy_folder(
        tmp_path / "model", QWEN2, use_sliding_window=False, sliding_window=32, layer_types=layer_types
    )
    assert plan_gguf(folder).layout.architecture == "qwen2"


def test_optional_biases_are_written(tmp_path: Path) -> None:
    llama, qwen3 = toy_weights(LLAMA), toy_weights(QWEN3)
    for weights, parts in ((llama, ("gate", "up", "down")), (qwen3, ("q", "k", "v", "o"))):
        for name in [name for name in weights if name.endswith(tuple(f"{part}_proj.weight" for part in parts))]:
            weights[name.replace("weight", "bias")] = np.full(len(weights[name]), 2.5, np.float32)
    written = _tensors(_written(write_toy_folder(tmp_path / "llama", LLAMA, llama, mlp_bias=True)))
    assert written["blk.1.ffn_up.bias"].tolist() == [2.5] * 48
    written = _tensors(_written(write_toy_folder(tmp_path / "qwen3", QWEN3, qwen3, attention_bias=True)))
    assert written["blk.1.attn_output.bias"].tolist() == [2.5] * HIDDEN
    assert written["blk.0.attn_q.bias"].tolist() == [2.5] * HEADS * HEAD_SIZE


@pytest.mark.parametrize(
    ("class_name", "config", "reason"),
    [
        ("GemmaForCausalLM", {}, r"is GemmaForCausalLM \(not one of LlamaForCausalLM, Mistral"),
        (LLAMA, {"architectures": None}, r"is no architecture \(not one of"),
        (LLAMA, {"quantization_config": {"quant_method": "gptq"}}, r"is quantized \(gptq\)"),
        (LLAMA, {"hidden_act": "gelu"}, "has the activation gelu"),
        (
            LLAMA,
            {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
            r"has dynamic rope scaling \(not one of linear, l",
        ),
        (QWEN3, {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6}}, "has yarn rope scaling"),
        (LLAMA, {"partial_rotary_factor": 0.5}, r"rotates a part of each head \(partial_rotary_factor 0\.5\)"),
        (MISTRAL, {"sliding_window": 32}, r"has sliding-window attention \(32\)"),
        (QWEN2, {"use_sliding_window": True, "sliding_window": 16}, r"has sliding-window attention \(16\)"),
        (QWEN3, {"layer_types": ["full_attention", "sliding_attention"]}, "has sliding-window attention"),
        (LLAMA, {"attention_bias": True}, "has attention_bias"),
    ],
)
def test_other_models_are_refused_by_name(class_name: str, config: Any, reason: str, tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model", class_name, **config)
    advice = f"which the openvino engine does not .*: convert it with `optimum-cli export openvino --model {folder} "
    with pytest.raises(ModelError, match=rf"^{folder} {reason}.*, {advice}"):
        plan_gguf(folder)


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"hidden_size": None}, r"hidden_size in .*config\.json is None, not a positive integer"),
        ({"num_hidden_layers": "2"}, r"num_hidden_layers in .* is '2', not a positive integer"),
        ({"rms_norm_eps": None}, r"rms_norm_eps in .* is None, not a positive number"),
        ({"rope_theta": -1}, r"rope_theta in .* is -1, not a positive number"),
        (
            {"rope_scaling": {"rope_type": "llama3", "factor": 8}},
            r"low_freq_factor in .* is None, not a positive number",
        ),
        ({"num_hidden_layers": 3}, r"is incomplete: there is no model\.layers\.2\..*weight \(and 8 more\) in its"),
        ({"num_hidden_layers": 1}, r"has the tensor model\.layers\.1\..*weight \(and 8 more\), which the openvino"),
        (
            {"intermediate_size": 64},
            r"gate_proj\.weight in .* has the shape \(48, 32\), and by config\.json \(64, 32\)",
        ),
    ],
)
def test_configs_that_do_not_fit_the_weights_are_refused(config: Any, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=complaint):
        plan_gguf(write_toy_folder(tmp_path / "model", **config))


def test_missing_head_is_not_taken_for_a_tied_one(tmp_path: Path) -> None:
    weights = toy_weights(LLAMA)
    del weights["lm_head.weight"]
    with pytest.raises(ModelError, match=r"is incomplete: there is no lm_head\.weight in its"):
        plan_gguf(write_toy_folder(tmp_path / "model", weights=weights))


def test_integers_are_refused_as_quantized(tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model", dtype="I8")
    with pytest.raises(ModelError, match=r"is quantized \(model\.embed_tokens\.weight is stored as I8\), which the"):
        plan_gguf(folder)


@pytest.mark.parametrize("dtype", ["BF16", "F32"])
@pytest.mark.parametrize("number", [1e5, np.nan, -np.inf])
@pytest.mark.parametrize("name", ["lm_head.weight", "model.norm.weight"])
def test_numbers_that_do_not_fit_are_refused(dtype: str, number: float, name: str, tmp_path: Path) -> None:
    weights = toy_weights(LLAMA)
    weights[name].ravel()[31] = number
    plan = plan_gguf(write_toy_folder(tmp_path / "model", weights=weights, dtype=dtype))
    with pytest.raises(ModelError, match=rf"{name} in .*model\.safetensors has a number that is not finite, or"):
        write_gguf(plan, tmp_path / "model.gguf", lambda done: None)


def test_missing_shard_is_named(tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model", shards=2)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(
        ModelError, match=r"is incomplete: .*index\.json names model-00002-of-00002\.safetensors, which"
    ):
        plan_gguf(folder)


def test_index_without_files_is_refused(tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model", shards=2)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": []}))
    with pytest.raises(ModelError, match=r"index\.json has no weight_map"):
        plan_gguf(folder)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "requires a buffer of 8 bytes"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 269060552\n", "a header of .* bytes"),
        (b"\x05\x00\x00\x00\x00\x00\x00\x00hello", "Expecting value"),
        (b"\x02\x00\x00\x00\x00\x00\x00\x00[]", "no attribute 'items'"),
        (b'\x08\x00\x00\x00\x00\x00\x00\x00{"a":{}}', "data_offsets"),
    ],
)
def test_other_files_are_not_read_as_safetensors(content: bytes, complaint: str, tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model")
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelError, match=rf"model\.safetensors is not a readable safetensors file.*: .*{complaint}"):
        plan_gguf(folder)


def test_file_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelError, match=r"or not all of it: .*\.weight ends behind the file's end"):
        plan_gguf(folder)


def test_sizes_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes().replace(b'"shape": [320, 32]', b'"shape": [320, 99]', 1))
    with pytest.raises(
        ModelError, match=r"embed_tokens\.weight has 40960 bytes, which is not F32 of shape \(320, 99\)"
    ):
        plan_gguf(folder)
