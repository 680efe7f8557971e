from __future__ import annotations

import json
import os
import shutil
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.tritone.conftest import Steps
from tests.unit.tritone.toy_safetensors import (
    HEAD_SIZE,
    HEADS,
    HIDDEN,
    KV_HEADS,
    VOCABULARY,
    Weights,
    toy_weights,
    write_toy_folder,
)
from tritone import safetensors_folder as module
from tritone.errors import ModelError, ProvisionError
from tritone.safetensors_files import find_tensors
from tritone.safetensors_folder import hugging_face_order, safetensors_folder
from tritone.safetensors_gguf import gguf_order, plan_gguf, write_gguf

LLAMA, MISTRAL, QWEN2, QWEN3 = (f"{name}ForCausalLM" for name in ("Llama", "Mistral", "Qwen2", "Qwen3"))
CLASSES = [LLAMA, MISTRAL, QWEN2, QWEN3]
F32, F16, BF16, Q4_1, Q8_0 = (gguf.GGMLQuantizationType[name] for name in ("F32", "F16", "BF16", "Q4_1", "Q8_0"))

Array = npt.NDArray[Any]


def _write(
    folder: Path,
    number_format: gguf.GGMLQuantizationType = F16,
    packed: dict[str, tuple[Array, gguf.GGMLQuantizationType]] | None = None,
    others: dict[str, Any] | None = None,
) -> Path:
    """The folder's model as model.gguf; `packed` are tensors as they are to lie there, empty those that are not."""
    plan = plan_gguf(folder)
    writer = gguf.GGUFWriter(folder / "model.gguf", plan.layout.architecture)
    for key, value in (others or {}).items():
        (writer.add_string if isinstance(value, str) else writer.add_float32)(key, value)
    tensors = {}
    for name, tensor in plan.layout.tensors.items():
        stored = plan.stored[name]
        numbers = stored.mapped().astype(np.float32)
        ordered = gguf_order(numbers, tensor.heads) if tensor.heads else numbers
        tensors[tensor.name] = (gguf.quantize(ordered, number_format), number_format)
    for name, (data, kind) in {**tensors, **(packed or {})}.items():
        if data.size:
            writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return folder / "model.gguf"


def _nothing() -> tuple[Array, gguf.GGMLQuantizationType]:
    return np.empty(0, np.float32), F32


def _made(folder: Path, progress: Any = lambda what, done, total: None) -> Path:
    return safetensors_folder(folder / "model.gguf", folder, progress)


def _bits(folder: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    tensors = find_tensors([folder / "model.safetensors"])
    return {name: (tensor.dtype, tensor.shape, tensor.mapped().tobytes()) for name, tensor in tensors.items()}


def _numbers(folder: Path, name: str) -> Array:
    return find_tensors([folder / "model.safetensors"])[name].mapped()


def _config(folder: Path) -> Any:
    return json.loads((folder / "config.json").read_text())


def _untied(class_name: str, is_tied: bool) -> Weights:
    weights = toy_weights(class_name)
    if is_tied:
        del weights["lm_head.weight"]
    return weights


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("is_tied", [False, True])
@pytest.mark.parametrize("class_name", CLASSES)
def test_floats_come_back_bit_for_bit(class_name: str, is_tied: bool, dtype: str, tmp_path: Path) -> None:
    weights = _untied(class_name, is_tied)
    folder = write_toy_folder(tmp_path / "model", class_name, weights, tie_word_embeddings=is_tied)
    _write(folder, gguf.GGMLQuantizationType[dtype])
    same = write_toy_folder(tmp_path / "same", class_name, weights, dtype=dtype)
    made = _made(folder)
    assert _bits(made) == _bits(same)
    assert _config(made)["tie_word_embeddings"] == is_tied
    assert _config(made)["torch_dtype"] == {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}[dtype]


@pytest.mark.parametrize("class_name", CLASSES)
def test_what_tritone_writes_as_gguf_comes_back(class_name: str, tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model", class_name, dtype="BF16")
    write_gguf(plan_gguf(folder), folder / "model.gguf", lambda done: None)
    made = _made(folder)
    matrices, vectors = (_bits(write_toy_folder(tmp_path / dtype, class_name, dtype=dtype)) for dtype in ("F16", "F32"))
    expected = {name: matrices[name] if len(vectors[name][1]) == 2 else vectors[name] for name in matrices}
    assert _bits(made) == expected
    assert _config(made)["torch_dtype"] == "float16"


def test_odd_floats_are_kept(tmp_path: Path) -> None:
    bits = np.array([0, 0x8000, 1, 0x83FF, 0x7BFF, 0xFBFF, 0x3555, 0x0400] * 4, np.uint16)
    rows = np.tile(bits, (VOCABULARY, 1)).view(np.float16)
    folder = write_toy_folder(tmp_path / "model")
    _write(folder, packed={"token_embd.weight": (rows, F16)})
    assert _numbers(_made(folder), "model.embed_tokens.weight").tobytes() == rows.tobytes()


def test_order_of_two_heads_of_four_rows() -> None:
    assert hugging_face_order(np.array([0, 2, 1, 3, 4, 6, 5, 7]), heads=2).tolist() == list(range(8))
    numbers = np.arange(48).reshape(24, 2)
    np.testing.assert_array_equal(hugging_face_order(gguf_order(numbers, 3), 3), numbers)


def _q4_1(scale: float, minimum: float, nibbles: list[int]) -> Array:
    head = np.array([scale, minimum], np.float16).view(np.uint8)
    low, high = np.array(nibbles[:16], np.uint8), np.array(nibbles[16:], np.uint8)
    return np.concatenate([head, low | high << 4])


def _q8_0(scale: float, numbers: list[int]) -> Array:
    return np.concatenate([np.array([scale], np.float16).view(np.uint8), np.array(numbers, np.int8).view(np.uint8)])


def test_q4_1_blocks(tmp_path: Path) -> None:
    nibbles = [*range(16), *range(15, -1, -1)]
    block, zero = _q4_1(0.25, -1.5, nibbles), _q4_1(0, 0.125, nibbles)
    rows = np.stack([block, zero] * (VOCABULARY // 2))
    folder = write_toy_folder(tmp_path / "model")
    _write(folder, packed={"token_embd.weight": (rows, Q4_1)})
    made = _made(folder)
    numbers = _numbers(made, "model.embed_tokens.weight")
    assert numbers.dtype == np.float16
    upwards = [-1.5, -1.25, -1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.25]
    assert numbers[0].tolist() == upwards + upwards[::-1]
    assert numbers[319].tolist() == [0.125] * 32


def test_q8_0_blocks(tmp_path: Path) -> None:
    integers = [-128, 127, 0, 1, -1, *[4] * 27]
    rows = np.stack([_q8_0(0.5, integers), _q8_0(-(2.0**-24), integers)] * (VOCABULARY // 2))
    folder = write_toy_folder(tmp_path / "model")
    _write(folder, packed={"token_embd.weight": (rows, Q8_0)})
    numbers = _numbers(_made(folder), "model.embed_tokens.weight")
    assert numbers[0].tolist() == [-64, 63.5, 0, 0.5, -0.5, *[2] * 27]
    assert numbers[1].tolist() == [2**-17, -127 * 2**-24, 0, -(2**-24), 2**-24, *[-(2**-22)] * 27]


def test_quantized_numbers_are_rounded_to_the_nearest_float16(tmp_path: Path) -> None:
    # 1.0009765625 is float16's next after 1; times 3 it lies halfway between two, times 5 and 7 a quarter off
    rows = np.stack([_q8_0(1.0009765625, [3, 5, 7, *[0] * 29])] * VOCABULARY)
    folder = write_toy_folder(tmp_path / "model")
    _write(folder, packed={"token_embd.weight": (rows, Q8_0)})
    numbers = _numbers(_made(folder), "model.embed_tokens.weight")
    assert numbers[0, :3].tolist() == [3.00390625, 5.00390625, 7.0078125]


def test_rows_of_quantized_heads_are_put_back(tmp_path: Path) -> None:
    for part, heads in (("q", HEADS), ("k", KV_HEADS)):
        rows = np.stack([_q4_1(0, row, [0] * 32) for row in range(heads * HEAD_SIZE)])
        folder = write_toy_folder(tmp_path / part)
        _write(folder, packed={f"blk.1.attn_{part}.weight": (rows, Q4_1)})
        numbers = _numbers(_made(folder), f"model.layers.1.self_attn.{part}_proj.weight")
        half = HEAD_SIZE // 2
        expected = [
            head * HEAD_SIZE + 2 * pair + side for head in range(heads) for side in (0, 1) for pair in range(half)
        ]
        assert numbers[:, 0].tolist() == numbers[:, 31].tolist() == expected


def test_blocks_give_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_toy_folder(tmp_path / "model")
    _write(folder)
    whole = _bits(_made(folder))
    shutil.rmtree(tmp_path / "cache")
    monkeypatch.setattr(module, "_BLOCK", HIDDEN * (HEAD_SIZE + 3))
    assert _bits(_made(folder)) == whole


def test_memory_holds_one_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights, inner = toy_weights(LLAMA), 20_000
    for name in [name for name in weights if ".mlp." in name]:
        weights[name] = np.zeros((HIDDEN, inner) if "down" in name else (inner, HIDDEN), np.float32)
    folder = write_toy_folder(tmp_path / "model", weights=weights, intermediate_size=inner)
    _write(folder)
    monkeypatch.setattr(module, "_BLOCK", 10_000)
    tracemalloc.start()
    made = _made(folder)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (made / "model.safetensors").stat().st_size > 12 * inner * HIDDEN
    assert peak < inner * HIDDEN * 2


def test_file_is_as_safetensors_wants_it(tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model")
    write_gguf(plan_gguf(folder), folder / "model.gguf", lambda done: None)
    data = (_made(folder) / "model.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert header.pop("__metadata__") == {"format": "pt"}
    assert length % 8 == 0
    assert list(header)[:2] == [
        "model.layers.0.input_layernorm.weight",
        "model.layers.0.post_attention_layernorm.weight",
    ]
    spans = [entry["data_offsets"] for entry in header.values()]
    assert [begin for begin, _ in spans] == [0, *(end for _, end in spans[:-1])]
    assert spans[-1][1] == len(data) - 8 - length


def test_files_beside_are_copied(tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model")
    gguf_file = _write(folder)
    copied = ["chat_template.jinja", "generation_config.json", "special_tokens_map.json", "tokenizer_config.json"]
    for name in (*copied, "README.md"):
        (folder / name).write_text(name)
    made = safetensors_folder(gguf_file, folder, lambda what, done, total: None)
    names = sorted(file.name for file in made.iterdir())
    assert names == sorted([*copied, "config.json", "model.safetensors", "tokenizer.json"])
    for name in (*copied, "tokenizer.json"):
        assert (made / name).read_text() == (folder / name).read_text()


def test_config_is_the_one_beside_with_what_is_written(tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model", MISTRAL)
    _write(folder)
    kept = {**_config(folder), "model_type": "mistral", "sliding_window": 32, "hidden_act": "gelu"}
    others = {"dtype": "bfloat16", "torch_dtype": "bfloat16", "quantization_config": {"quant_method": "gptq"}}
    (folder / "config.json").write_text(json.dumps({**kept, **others}))
    assert _config(_made(folder)) == {**kept, "torch_dtype": "float16"}


def test_folder_is_made_once(cache: Path, tmp_path: Path, steps: Steps) -> None:
    folder = write_toy_folder(tmp_path / "model")
    _write(folder)
    made = _made(folder, steps)
    assert made.parent == cache
    seen = list(steps.seen)
    assert {what for what, _, _ in seen} == {"Unpacking the weights of model.gguf"}
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    size = sum(len(data) for _, _, data in _bits(made).values())
    assert seen[-1][1:] == (size, size)
    assert _made(folder, steps) == made
    assert steps.seen == seen


@pytest.mark.parametrize("name", ["model.gguf", "config.json", "tokenizer.json", "chat_template.jinja"])
def test_changed_files_make_another(name: str, tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model")
    _write(folder)
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    first = _made(folder)
    os.utime(folder / name, (1, 1))
    assert _made(folder) != first


def _refused(folder: Path, complaint: str) -> None:
    with pytest.raises(ModelError, match=complaint):
        _made(folder)
    assert not list((folder.parent / "cache").glob("*safetensors-*"))


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_missing_files_are_named(name: str, tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model")
    _write(folder)
    (folder / name).unlink()
    _refused(folder, rf"there is no .*model/{name}")


def test_files_that_are_cut_short_are_refused(tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model")
    data = _write(folder).read_bytes()
    for length in (*range(0, len(data), 4001), len(data) - 33):
        (folder / "model.gguf").write_bytes(data[:length])
        _refused(folder, r"model\.gguf is not a readable GGUF file")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (b"blk.0.attn_k.weight", b"blk.0.attn_v.weight", r"not a readable GGUF file, or not all of it: .*duplicated"),
        (b"blk.0.attn_k.weight", b"blk.9.attn_k.weight", r"is incomplete: it has no blk\.0\.attn_k\.weight$"),
        (b"blk.1.", b"blk.7.", r"is incomplete: it has no blk\.1\.attn_norm\.weight \(and 8 more\)"),
        (
            b"\x05\x00\x00\x00\x00\x00\x00\x00llama",
            b"\x05\x00\x00\x00\x00\x00\x00\x00qwen2",
            r"of the architecture qwen2, ",
        ),
    ],
)
def test_damaged_files_are_refused(old: bytes, new: bytes, complaint: str, tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model")
    data = _write(folder).read_bytes()
    (folder / "model.gguf").write_bytes(data.replace(old, new))
    _refused(folder, complaint)


@pytest.mark.parametrize(
    ("packed", "complaint"),
    [
        ({"blk.0.attn_q.bias": (np.zeros(64, np.float32), F32)}, r"has the tensor blk\.0\.attn_q\.bias, which is none"),
        ({"blk.2.ffn_up.weight": (np.zeros((4, 4), np.float16), F16)}, r"has the tensor blk\.2\.ffn_up\.weight, which"),
        ({"output_norm.weight": _nothing()}, r"is incomplete: it has no output_norm\.weight"),
        (
            {"blk.0.ffn_up.weight": (np.zeros((HIDDEN, 48), np.float16), F16)},
            r"blk\.0\.ffn_up\.weight in .*model\.gguf has the shape \(32, 48\), and by config\.json \(48, 32\)",
        ),
        (
            {"output_norm.weight": (np.zeros(HIDDEN, np.int32), gguf.GGMLQuantizationType.I32)},
            r"has numbers of the format I32, which cannot be unpacked",
        ),
    ],
)
def test_tensors_that_do_not_fit_the_config_are_refused(packed: Any, complaint: str, tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model")
    _write(folder, packed=packed)
    _refused(folder, complaint)


def test_file_without_a_head_is_tied_whatever_the_config_says(tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model", tie_word_embeddings=False)
    _write(folder, packed={"output.weight": _nothing()})
    made = _made(folder)
    assert _config(made)["tie_word_embeddings"] is True
    assert "lm_head.weight" not in _bits(made)


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        (
            {"architectures": ["GemmaForCausalLM"]},
            r"model\.gguf is of the architecture llama, and .* of GemmaForCausalLM",
        ),
        ({"architectures": None}, r"config\.json of no architecture"),
        ({"attention_bias": True}, r"has attention_bias, which is not supported for LlamaForCausalLM"),
        ({"hidden_size": None}, r"hidden_size in .*config\.json is None, not a positive integer"),
    ],
)
def test_configs_of_other_models_are_refused(config: Any, complaint: str, tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model")
    _write(folder)
    (folder / "config.json").write_text(json.dumps({**_config(folder), **config}))
    _refused(folder, complaint)


@pytest.mark.parametrize(
    ("data", "number_format"),
    [
        (_q4_1(60000, 60000, [1] * 32), Q4_1),
        (_q8_0(1000, [66] * 32), Q8_0),
        (_q8_0(np.nan, [0] * 32), Q8_0),
        (_q4_1(1, -np.inf, [1] * 32), Q4_1),
    ],
)
def test_numbers_that_fit_no_float16_are_refused(data: Array, number_format: Any, tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model")
    rows = np.stack([_q8_0(0, [0] * 32) if number_format is Q8_0 else _q4_1(0, 0, [0] * 32)] * VOCABULARY)
    rows[VOCABULARY - 1] = data
    _write(folder, packed={"token_embd.weight": (rows, number_format)})
    _refused(
        folder, r"token_embd\.weight in .*model\.gguf has a number that is not finite, or too .* float16 \(65504\)"
    )


def test_largest_float16_is_none_too_large(tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model")
    _write(folder, packed={"token_embd.weight": (np.stack([_q8_0(-2047, [32] * 32)] * VOCABULARY), Q8_0)})
    assert _numbers(_made(folder), "model.embed_tokens.weight").min() == -65504


@pytest.mark.parametrize(("number_format", "number"), [(BF16, np.inf), (F32, np.nan), (F16, np.nan)])
def test_floats_that_are_not_finite_are_refused(number_format: Any, number: float, tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model")
    norm = np.full(HIDDEN, number, np.float32)
    _write(folder, number_format, packed={"output_norm.weight": (gguf.quantize(norm, number_format), number_format)})
    _refused(folder, r"output_norm\.weight in .* has a number that is not finite")


def test_vectors_fit_what_the_engine_makes_of_them(tmp_path: Path) -> None:
    norm = {"output_norm.weight": (np.full(HIDDEN, 1e5, np.float32), F32)}
    folder = write_toy_folder(tmp_path / "model")
    _write(folder, BF16, packed=norm)
    assert _numbers(_made(folder), "model.norm.weight").tolist() == [1e5] * HIDDEN
    other = write_toy_folder(tmp_path / "other")
    _write(other, F16, packed=norm)
    with pytest.raises(ModelError, match=r"output_norm\.weight in .* or too large for a float16 \(65504\)"):
        _made(other)


LLAMA3 = {
    "rope_type": "llama3",
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
BASE = {"llama.rope.freq_base": 500000.0}


def _divisors(factor: float, old_context: int = 8192, low: float = 1.0) -> dict[str, Any]:
    """What llama.cpp's converter writes for Llama 3's scaling, a base of 500000 and heads of 16."""
    divisors = []
    for frequency in 500000.0 ** (-np.arange(0, HEAD_SIZE, 2) / HEAD_SIZE):
        turns = old_context * frequency / (2 * np.pi)
        smooth = (turns - low) / (4.0 - low)
        divisors.append(1.0 if turns > 4.0 else factor if turns < low else 1 / ((1 - smooth) / factor + smooth))
    return {"rope_freqs.weight": (np.array(divisors, np.float32), F32)}


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_scaling_of_llama_3_goes_into_the_config(factor: float, tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model", rope_theta=500000.0)
    _write(folder, packed=_divisors(factor), others=BASE)
    made = _made(folder)
    assert _config(made)["rope_scaling"] == {**LLAMA3, "factor": factor}
    assert len(_bits(made)) == len(toy_weights(LLAMA))


@pytest.mark.parametrize(
    "packed",
    [
        _divisors(8.0, old_context=4096),
        _divisors(8.0, low=2.0),
        {"rope_freqs.weight": (np.ones(HEAD_SIZE, np.float32), F32)},
    ],
)
def test_scaling_that_is_not_llama_3s_is_refused(packed: Any, tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model", rope_theta=500000.0)
    _write(folder, packed=packed, others=BASE)
    _refused(
        folder, r"model\.gguf scales its rotary frequencies \(rope_freqs\.weight\) in another way than Llama 3, and"
    )


@pytest.mark.parametrize(
    ("values", "scaling"),
    [
        ({}, None),
        ({"llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 4.0}, None),
        ({"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 1.0}, None),
        (
            {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0},
            {"rope_type": "linear", "factor": 4.0},
        ),
        ({"llama.rope.scale_linear": 2.0}, {"rope_type": "linear", "factor": 2.0}),
    ],
)
def test_linear_scaling_goes_into_the_config(values: dict[str, Any], scaling: Any, tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model")
    _write(folder, others=values)
    assert _config(_made(folder)).get("rope_scaling") == scaling


def test_scaling_goes_where_transformers_5_has_the_base(tmp_path: Path) -> None:
    rope = {"rope_type": "default", "rope_theta": 500000.0}
    folder = write_toy_folder(tmp_path / "model", rope_theta=None, rope_parameters=rope)
    _write(folder, packed=_divisors(8.0), others=BASE)
    config = _config(_made(folder))
    assert config["rope_parameters"] == {**LLAMA3, "factor": 8.0, "rope_theta": 500000.0}
    assert "rope_scaling" not in config


def test_other_scaling_is_refused_unless_the_config_has_it(tmp_path: Path) -> None:
    folder = write_toy_folder(tmp_path / "model")
    _write(folder, others={"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 4.0})
    _refused(
        folder,
        r"model\.gguf has yarn rope scaling \(llama\.rope\.scaling\.type\), and its config\.json does not say so",
    )
    scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
    (folder / "config.json").write_text(json.dumps({**_config(folder), "rope_scaling": scaling}))
    assert _config(_made(folder))["rope_scaling"] == scaling


def test_full_disk_is_found_before_anything_is_written(
    cache: Path, tmp_path: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_toy_folder(tmp_path / "model")
    _write(folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    with pytest.raises(
        ProvisionError, match=r"converting .*/model\.gguf takes 0\.0 GB in the cache .*, and 0\.0 GB are"
    ):
        _made(folder, steps)
    assert steps.seen == []
    assert [entry.name for entry in cache.iterdir()] == ["locks"]
