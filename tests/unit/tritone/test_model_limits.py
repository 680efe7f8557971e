from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.toy_tokenizers import byte_level_tokenizer
from tritone.errors import ModelError
from tritone.model_limits import ModelLimits, read_limits

CONFIG = {"vocab_size": 320, "max_position_embeddings": 64, "eos_token_id": 2, "bos_token_id": 1}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    byte_level_tokenizer().save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def _write(folder: Path, **files: Any) -> Path:
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def test_limits_of_a_plain_config(folder: Path) -> None:
    assert read_limits(_write(folder, config=CONFIG)) == ModelLimits(64, 320, (2,), 1)


@pytest.mark.parametrize(
    ("generation", "config", "tokenizer", "expected"),
    [
        ({"eos_token_id": [2, 257]}, {"eos_token_id": 2}, {}, (2, 257)),  # field report B38
        ({"eos_token_id": 257}, {"eos_token_id": 2}, {"eos_token": "<think>"}, (257,)),
        ({"temperature": 0.5}, {"eos_token_id": [2, 2, 3]}, {"eos_token": "<think>"}, (2, 3)),
        ({"eos_token_id": None}, {"eos_token_id": None}, {"eos_token": "<|im_end|>"}, (257,)),
        ({"eos_token_id": []}, {}, {"eos_token": {"content": "<|im_end|>", "lstrip": False}}, (257,)),
        ({}, {}, {"eos_token": "<not there>"}, ()),
        ({}, {}, {"eos_token": None}, ()),
        ({}, {}, {}, ()),
    ],
)
def test_end_tokens_come_from_the_first_file_that_names_them(
    generation: Any, config: Any, tokenizer: Any, expected: tuple[int, ...], folder: Path
) -> None:
    whole = {"vocab_size": 320, **config}
    _write(folder, generation_config=generation, config=whole, tokenizer_config=tokenizer)
    assert read_limits(folder).eos_token_ids == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"vocab_size": 320}, None),
        ({"vocab_size": 320, "n_positions": 128}, 128),
        ({"vocab_size": 320, "seq_length": 256}, 256),
        ({"text_config": {"vocab_size": 320, "max_position_embeddings": 32}}, 32),
        ({"vocab_size": 320, "text_config": None}, None),
    ],
)
def test_context_length_under_each_of_its_names(config: Any, expected: int | None, folder: Path) -> None:
    limits = read_limits(_write(folder, config=config))
    assert (limits.max_position_embeddings, limits.vocab_size) == (expected, 320)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"vocab_size": None}, r"config\.json has no vocab_size"),
        ({"vocab_size": "320"}, r"vocab_size in .*config\.json is '320', not a positive integer"),
        ({"vocab_size": 0}, "is 0, not a positive integer"),
        ({"max_position_embeddings": True}, r"max_position_embeddings in .*config\.json is True, not a positive"),
        ({"eos_token_id": 320}, r"eos_token_id in .*config\.json is 320; ids must be integers from 0 to 319"),
        ({"eos_token_id": -1}, "is -1; ids must be integers"),
        ({"eos_token_id": [2, "3"]}, r"is \[2, '3'\]; ids must be integers"),
        ({"bos_token_id": 1.5}, r"bos_token_id in .*config\.json is 1\.5"),
    ],
)
def test_wrong_values_are_named(change: Any, complaint: str, folder: Path) -> None:
    with pytest.raises(ModelError, match=complaint):
        read_limits(_write(folder, config={**CONFIG, **change}))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", r"config\.json is not valid JSON: Expecting property name"),
        ("[1]", r"config\.json holds list, not a JSON object"),
        (None, r"there is no .*config\.json"),
    ],
)
def test_broken_files_are_named(text: str | None, complaint: str, folder: Path) -> None:
    if text is not None:
        (folder / "config.json").write_text(text)
    with pytest.raises(ModelError, match=complaint):
        read_limits(folder)
