from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from tests.unit.tritone.toy_gguf import BYTE_LEVEL, END, SENTENCEPIECE, START, THINK, write_toy_gguf
from tritone.errors import ModelError
from tritone.gguf_folder import cached_gguf_folder, gguf_to_folder

TEMPLATE = "{% for m in messages %}<|start|>{{ m.content }}{% endfor %}"


def _converted(tmp_path: Path, tokenizer: dict[str, Any] = BYTE_LEVEL, **options: Any) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    gguf_to_folder(write_toy_gguf(tmp_path / "toy.gguf", tokenizer, **options), folder)
    return folder


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_config_says_what_the_file_says(tmp_path: Path) -> None:
    assert _json(_converted(tmp_path) / "config.json") == {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 4,
        "max_position_embeddings": 64,
        "rms_norm_eps": 0.5,
        "rope_theta": 1000.0,
        "hidden_act": "silu",
        "vocab_size": 267,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "torch_dtype": "float16",
        "bos_token_id": START,
        "eos_token_id": END,
        "pad_token_id": END,
    }


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ({}, {"bos_token_id": START, "eos_token_id": END, "pad_token_id": END}),
        ({"padding_token_id": THINK}, {"bos_token_id": START, "eos_token_id": END, "pad_token_id": THINK}),
        (
            {"eot_token_id": THINK, "eom_token_id": END},
            {"bos_token_id": START, "eos_token_id": [END, THINK], "pad_token_id": END},
        ),
        ({"bos_token_id": 0}, {"bos_token_id": 0, "eos_token_id": END, "pad_token_id": END}),
    ],
)
def test_generation_config_has_every_end_token(ids: dict[str, int], expected: dict[str, Any], tmp_path: Path) -> None:
    assert _json(_converted(tmp_path, {**BYTE_LEVEL, **ids}) / "generation_config.json") == expected


def test_no_end_token_is_left_out(tmp_path: Path) -> None:
    folder = _converted(tmp_path, without="tokenizer.ggml.eos_token_id")
    assert _json(folder / "generation_config.json") == {"bos_token_id": START}


@pytest.mark.parametrize(
    ("templates", "expected"),
    [
        ({}, None),
        ({"": "A"}, "A"),
        ({"": "A", ".tool_use": "B"}, [{"name": "default", "template": "A"}, {"name": "tool_use", "template": "B"}]),
        ({".default": "B"}, [{"name": "default", "template": "B"}]),
    ],
)
def test_tokenizer_config_has_the_chat_templates(templates: dict[str, str], expected: Any, tmp_path: Path) -> None:
    others = {f"tokenizer.chat_template{name}": template for name, template in templates.items()}
    config = _json(_converted(tmp_path, others=others) / "tokenizer_config.json")
    assert config.pop("chat_template", None) == expected
    assert config == {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 64,
        "bos_token": "<|start|>",
        "eos_token": "<|end|>",
        "pad_token": "<|end|>",
    }


@pytest.mark.parametrize("tokenizer", [BYTE_LEVEL, SENTENCEPIECE], ids=["byte level", "sentencepiece"])
def test_transformers_reads_the_folder(tokenizer: dict[str, Any], tmp_path: Path) -> None:
    folder = _converted(tmp_path, tokenizer, others={"tokenizer.chat_template": TEMPLATE})
    read = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    plain = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in ("hello hello", " two  blanks", "é", "<|start|>hel<|end|>"):
        assert read.encode(text) == plain.encode(text).ids
        assert read.decode(read.encode(text)) == plain.decode(plain.encode(text).ids, skip_special_tokens=False)
    assert (read.bos_token_id, read.eos_token_id) == (tokenizer["bos_token_id"], tokenizer["eos_token_id"])
    assert read.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False) == "<|start|>hi"


@pytest.mark.parametrize(("architecture", "name"), [("qwen2", "Qwen2ForCausalLM"), ("qwen3", "Qwen3ForCausalLM")])
def test_other_known_architectures(architecture: str, name: str, tmp_path: Path) -> None:
    config = _json(_converted(tmp_path, architecture=architecture) / "config.json")
    assert (config["model_type"], config["architectures"], config["hidden_size"]) == (architecture, [name], 16)


def test_unknown_architecture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="architecture 'gemma2' is not supported; accepted: llama, qwen2, qwen3"):
        _converted(tmp_path, architecture="gemma2")


def test_missing_size_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"the GGUF file has no llama\.context_length"):
        _converted(tmp_path, without="llama.context_length")


def test_weights_are_linked_unless_they_lie_there(tmp_path: Path) -> None:
    assert (_converted(tmp_path) / "toy.gguf").resolve() == tmp_path / "toy.gguf"
    gguf_to_folder(tmp_path / "toy.gguf", tmp_path)
    assert not (tmp_path / "toy.gguf").is_symlink()


def test_cached_folder_is_made_anew_only_for_another_file(tmp_path: Path) -> None:
    path = write_toy_gguf(tmp_path / "toy.gguf", BYTE_LEVEL)
    first = cached_gguf_folder(path)
    made_ns = (first / "tokenizer.json").stat().st_mtime_ns
    assert cached_gguf_folder(path) == first
    assert (first / "tokenizer.json").stat().st_mtime_ns == made_ns
    os.utime(path, (1, 1))
    assert cached_gguf_folder(path) != first
