from __future__ import annotations

from typing import Any

import pytest

from preprocess.settings import PreprocessSettings


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"generation_config": "vllm"}, "generation_config: got 'vllm', allowed: auto, none"),
        ({"max_model_len": 0}, "max_model_len: got 0, must be at least 1"),
        ({"vocab_size": -5}, "vocab_size: got -5, must be at least 1"),
        ({"max_prompt_chars": 0}, "max_prompt_chars: got 0, must be at least 1"),
    ],
)
def test_a_wrong_setting_is_named(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        PreprocessSettings(tokenizer_dir="model", **wrong)
