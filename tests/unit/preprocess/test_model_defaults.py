from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from preprocess.model_defaults import ModelDefaults, load_model_defaults
from preprocess.sampling import SamplingDefaults
from preprocess.settings import PreprocessSettings


def load(
    folder: Path,
    *,
    config: Any = None,
    generation: Any = None,
    tokenizer_eos: int | None = None,
    **settings: Any,
) -> ModelDefaults:
    for name, content in (("config.json", config), ("generation_config.json", generation)):
        if content is not None:
            (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    settings = {"max_model_len": 64, **settings}
    return load_model_defaults(PreprocessSettings(folder, **settings), 300, tokenizer_eos)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"config": {"eos_token_id": 2}, "generation": {"eos_token_id": [2, 257]}}, (2, 257)),
        ({"config": {"eos_token_id": 2}, "generation": {"eos_token_id": 257}, "tokenizer_eos": 1}, (257,)),
        ({"config": {"eos_token_id": 2}, "generation": {}, "tokenizer_eos": 1}, (2,)),
        ({"config": {"text_config": {"eos_token_id": [3, 4]}}}, (3, 4)),
        ({"config": {"eos_token_id": None}, "generation": {"eos_token_id": None}, "tokenizer_eos": 1}, (1,)),
    ],
)
def test_end_tokens_come_from_the_first_that_names_them(
    tmp_path: Path, files: dict[str, Any], expected: tuple[int, ...]
) -> None:
    assert load(tmp_path, **files).eos_ids == expected


def test_a_model_without_end_token_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert load(tmp_path).eos_ids == ()
    assert caplog.messages == ["neither generation_config.json, config.json nor the tokenizer names an end token"]


@pytest.mark.parametrize(
    ("generation", "expected"),
    [
        (None, SamplingDefaults(temperature=0.0)),
        ({"eos_token_id": 2}, SamplingDefaults(temperature=0.0)),
        ({"do_sample": False, "temperature": 0.7, "top_p": 0.9}, SamplingDefaults(temperature=0.0, top_p=0.9)),
        ({"do_sample": True}, SamplingDefaults()),
        ({"do_sample": True, "temperature": 0.7, "top_k": 20}, SamplingDefaults(temperature=0.7, top_k=20)),
        ({"temperature": 0.6, "top_p": 0.9}, SamplingDefaults(temperature=0.6, top_p=0.9)),
        ({"top_p": 0.9, "top_k": None, "min_p": 0.1}, SamplingDefaults(top_p=0.9, min_p=0.1)),
        ({"repetition_penalty": 1.1}, SamplingDefaults(temperature=0.0, repetition_penalty=1.1)),
    ],
)
def test_sampling_follows_generation_config(
    tmp_path: Path, generation: dict[str, Any] | None, expected: SamplingDefaults
) -> None:
    assert load(tmp_path, generation=generation, tokenizer_eos=2).sampling == expected


def test_none_means_neutral_sampling_and_still_the_models_end_tokens(tmp_path: Path) -> None:
    generation = {"eos_token_id": [2, 257], "do_sample": False, "top_k": 20}
    model = load(tmp_path, generation=generation, generation_config="none")
    assert model.sampling == SamplingDefaults(temperature=1.0, top_k=0)
    assert model.eos_ids == (2, 257)


def test_sizes_come_from_settings_then_config(tmp_path: Path) -> None:
    config = {"vocab_size": 320, "max_position_embeddings": 8192, "eos_token_id": 2}
    from_config = load(tmp_path, config=config, max_model_len=None)
    assert (from_config.max_model_len, from_config.vocab_size) == (8192, 320)
    from_settings = load(tmp_path, config=config, max_model_len=32, vocab_size=310)
    assert (from_settings.max_model_len, from_settings.vocab_size) == (32, 310)
    assert load(tmp_path, config={"eos_token_id": 2}).vocab_size == 300


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ({"max_model_len": None}, "max_model_len: not set, and config.json has no max_position_embeddings"),
        ({"config": {"eos_token_id": 300}}, "eos_token_id: got 300, allowed: 0 to 299"),
        ({"generation": {"eos_token_id": ["</s>"]}}, "eos_token_id: got '</s>', allowed: 0 to 299"),
        ({"generation": {"top_p": 1.5}}, "generation_config.json: top_p: got 1.5, allowed: more than 0, up to 1"),
        ({"config": "{"}, "config.json: Expecting property name"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, files: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        load(tmp_path, **files)
