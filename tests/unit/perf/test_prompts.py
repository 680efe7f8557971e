"""Prompts and lengths are exact and repeatable."""

from __future__ import annotations

import random
from pathlib import Path
from statistics import mean

import pytest
from tokenizers import Tokenizer

from perf.prompts import random_ids, spread_lengths, text_of
from tests.toy_tokenizers import byte_level_tokenizer
from tritone.errors import TritoneError


@pytest.mark.parametrize("tokens", [1, 64, 1000])
def test_text_has_exactly_so_many_tokens(tmp_path: Path, tokens: int) -> None:
    byte_level_tokenizer([" the", " river"]).save(str(tmp_path / "tokenizer.json"))
    text = text_of(tokens, tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert len(tokenizer.encode(text).ids) == tokens
    assert text.startswith("T")


def test_tokenizer_that_adds_a_token_is_refused(tmp_path: Path) -> None:
    from tokenizers.processors import TemplateProcessing

    tokenizer = byte_level_tokenizer()
    tokenizer.post_processor = TemplateProcessing(single="<|im_start|> $A", special_tokens=[("<|im_start|>", 256)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(TritoneError, match="exactly 8 tokens"):
        text_of(8, tmp_path)


def test_lengths_are_spread_around_their_mean() -> None:
    lengths = spread_lengths(512, 101, random.Random(1))
    assert (min(lengths), max(lengths), len(lengths), mean(lengths)) == (256, 768, 101, 512)
    assert lengths != sorted(lengths)
    assert lengths == spread_lengths(512, 101, random.Random(1))


def test_short_lengths_are_at_least_one() -> None:
    assert sorted(set(spread_lengths(2, 5, random.Random(1)))) == [1, 2, 3]


def test_random_ids_are_repeatable_and_ordinary() -> None:
    prompts = random_ids(3, 64, 1000, random.Random(7))
    assert [len(prompt) for prompt in prompts] == [64, 64, 64]
    assert {10 <= token < 1000 for prompt in prompts for token in prompt} == {True}
    assert prompts == random_ids(3, 64, 1000, random.Random(7))
    assert len({prompt[0] for prompt in prompts}) == 3
