from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preprocess.errors import InvalidRequest
from preprocess.tokenizer import load_tokenizer
from preprocess.word_lists import (
    MAX_WORD_CHARS,
    MAX_WORDS,
    bad_sequences,
    bad_spellings,
    read_words,
    stop_sequences,
    word_list_tensor,
)
from tests.toy_tokenizers import BLANK_WORLD, byte_level_tokenizer
from tests.unit.preprocess.toy_models import write_bos_model, write_model


@pytest.mark.parametrize(
    ("sent", "expected"), [(None, []), ([], []), ([""], []), (["", "x"], ["x"]), (["a", " "], ["a", " "])]
)
def test_an_empty_word_means_none(sent: list[str] | None, expected: list[str]) -> None:
    assert read_words("stop_words", sent) == expected


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (["x"] * 5000, f"bad_words: has 5000 entries, allowed: {MAX_WORDS}"),
        (["x", "y" * (MAX_WORD_CHARS + 1)], f"bad_words: has an entry of 1025 characters, allowed: {MAX_WORD_CHARS}"),
    ],
)
def test_lists_are_bounded(sent: list[str], text: str) -> None:
    assert read_words("bad_words", ["y" * MAX_WORD_CHARS] * MAX_WORDS)
    with pytest.raises(InvalidRequest) as caught:
        read_words("bad_words", sent)
    assert str(caught.value) == text


def test_stop_sequences_that_do_not_spell_the_word_are_left_out(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(write_bos_model(tmp_path), trust_remote_code=False)[0]
    assert stop_sequences(["world", " world"], [[BLANK_WORLD], [BLANK_WORLD]], tokenizer) == [(BLANK_WORLD,)]
    assert stop_sequences(["x"], [[]], tokenizer) == []


def test_a_bad_word_is_forbidden_after_a_blank_too(tmp_path: Path) -> None:
    model = write_model(tmp_path, byte_level_tokenizer())
    tokenizer = load_tokenizer(model, trust_remote_code=False)[0]
    assert bad_spellings(["a", "b"]) == ["a", "b", " a", " b"]
    assert bad_sequences(tokenizer.encode_batch(bad_spellings(["ab"]))) == [(97, 98)]
    assert bad_sequences([[1], [2, 3], [4], [9, 2, 3]]) == [(1,), (2, 3), (4,)]
    assert bad_sequences([]) == []


def test_the_tensor_has_ids_over_end_offsets() -> None:
    tensor = word_list_tensor([(5, 6), (7,)])
    assert tensor.dtype == np.int32
    assert tensor.tolist() == [[5, 6, 7], [2, 3, -1]]
    assert word_list_tensor([]).shape == (2, 0)
    assert word_list_tensor([]).dtype == np.int32


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5).map(tuple), max_size=5))
def test_the_tensor_can_be_read_back(sequences: list[tuple[int, ...]]) -> None:
    ids, ends = word_list_tensor(sequences).tolist()
    ends = [end for end in ends if end != -1]
    assert [tuple(ids[start:end]) for start, end in zip([0, *ends], ends, strict=False)] == sequences
