from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tests.unit.tritone.toy_gguf import (
    BYTE_ALPHABET,
    BYTE_LEVEL,
    END,
    PAD_ROW,
    SENTENCEPIECE,
    START,
    THINK,
    WORDS,
)
from tritone.errors import ModelError
from tritone.gguf_tokenizer import GgufVocabulary, build_tokenizer

HELLO, TWELVE, NUMBER, BLANK_HELLO = (256 + WORDS.index(word) for word in ("hello", "12", "123", "Ġhello"))
PRE_TOKENIZERS = ["default", "gpt-2", "smollm", "qwen2", "deepseek-r1-qwen", "llama-bpe", "llama3", "llama-v3"]


def _tokenizer(base: dict[str, Any] = BYTE_LEVEL, **changes: Any) -> Tokenizer:
    return build_tokenizer(GgufVocabulary({**base, **changes}))


def _words(tokenizer: Tokenizer, text: str) -> list[str]:
    """The words a byte-level pre-tokenizer cuts an ASCII text into."""
    return [word.replace("Ġ", " ").replace("Ċ", "\n") for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]


def test_words_are_merged_and_special_tokens_found() -> None:
    ids = _tokenizer().encode("<|start|>hello hello<think>!<|end|>").ids
    assert ids == [START, HELLO, BLANK_HELLO, THINK, ord("!"), END]


@pytest.mark.parametrize(
    ("pre", "expected"),
    [
        ("gpt-2", ["a", " don", "'t", "  ", " b", "12345", "\n", "\n", "X", "'", "LL"]),
        ("smollm", ["a", " don", "'t", "  ", " b", "1", "2", "3", "4", "5", "\n", "\n", "X", "'", "LL"]),
        ("qwen2", ["a", " don", "'t", "  ", " b", "1", "2", "3", "4", "5", "\n\n", "X", "'LL"]),
        ("llama-bpe", ["a", " don", "'t", "  ", " b", "123", "45", "\n\n", "X", "'LL"]),
    ],
)
def test_each_pre_tokenizer_cuts_words_its_own_way(pre: str, expected: list[str]) -> None:
    assert _words(_tokenizer(pre=pre), "a don't   b12345\n\nX'LL") == expected


@pytest.mark.parametrize(
    ("pre", "expected"),
    [("gpt-2", [NUMBER]), ("llama-bpe", [START, NUMBER]), ("smollm", [*b"123"]), ("qwen2", [*b"123"])],
)
def test_digits(pre: str, expected: list[int]) -> None:
    assert _tokenizer(pre=pre).encode("123").ids == expected


def test_llama3_takes_a_word_that_is_a_token_without_merges() -> None:
    assert _tokenizer(pre="llama-bpe", merges=[]).encode("hello").ids == [START, HELLO]
    assert _tokenizer(pre="qwen2", merges=[]).encode("hello").ids == [*b"hello"]


def test_qwen2_composes_characters_first() -> None:
    assert _tokenizer(pre="qwen2").encode("e\u0301").ids == [*"é".encode()]
    assert _tokenizer(pre="smollm").encode("e\u0301").ids == [*"e\u0301".encode()]


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
@given(text=st.text())
@example(text="  a\r\n\t 12 \U0001f600 don't ")
def test_byte_level_text_survives_a_round_trip(pre: str, text: str) -> None:
    tokenizer = _tokenizer(pre=pre)
    expected = unicodedata.normalize("NFC", text) if "qwen" in pre else text
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"pre": "smollm"}, [HELLO]),
        ({"pre": "smollm", "add_bos_token": True}, [START, HELLO]),
        ({"pre": "llama-bpe"}, [START, HELLO]),
        ({"pre": "llama-bpe", "add_bos_token": False}, [HELLO]),
        ({"pre": "smollm", "add_eos_token": True}, [HELLO, END]),
        ({"pre": "smollm", "add_bos_token": True, "add_eos_token": True, "bos_token_id": END}, [END, HELLO, END]),
        ({"pre": "smollm", "add_bos_token": True, "bos_token_id": None}, [HELLO]),
    ],
)
def test_bos_and_eos_are_added_as_the_file_says(changes: dict[str, Any], expected: list[int]) -> None:
    assert _tokenizer(**changes).encode("hello").ids == expected


def test_rows_without_a_token_are_left_out() -> None:
    tokenizer = _tokenizer()
    assert tokenizer.id_to_token(PAD_ROW) is None
    assert tokenizer.decode([HELLO, PAD_ROW]) == "hello"


def test_special_tokens_are_skipped_and_text_tokens_are_not() -> None:
    assert _tokenizer().decode([START, THINK, HELLO, END]) == "<think>hello"


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"pre": "tekken"}, r"pre-tokenizer 'tekken' \(tokenizer\.ggml\.pre\) is not supported; known: default, gpt-2"),
        ({"model": "t5"}, r"vocabulary type 't5' \(tokenizer\.ggml\.model\) is not supported; accepted: gpt2, llama"),
        ({"model": "llama"}, r"llama vocabulary without tokenizer\.ggml\.scores"),
        ({"bos_token_id": 267, "add_bos_token": True}, r"tokenizer\.ggml\.bos_token_id is 267, outside"),
    ],
)
def test_what_is_not_known_exactly_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ModelError, match=complaint):
        _tokenizer(**changes)


def test_file_without_a_vocabulary_is_refused() -> None:
    with pytest.raises(ModelError, match=r"has no tokenizer\.ggml\.token_type, tokenizer\.ggml\.tokens"):
        GgufVocabulary.of({"tokenizer.ggml.model": "gpt2", "general.name": "x"})


# Pieces: 259 "▁" h e l o, 264 "▁h" -1, "el" -2, "lo" -3, "▁hel" -4, "▁hello" -5.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", [1, 268]),
        ("hello hello", [1, 268, 268]),
        ("hel", [1, 267]),
        ("ohello", [1, 259, 263, 260, 265, 266]),
        ("é", [1, 259, 3 + 0xC3, 3 + 0xA9]),
        ("</s>hel", [1, 2, 267]),
        ("", [1]),
    ],
)
def test_sentencepiece_merges_by_score_and_falls_back_to_bytes(text: str, expected: list[int]) -> None:
    assert _tokenizer(SENTENCEPIECE).encode(text).ids == expected


def test_sentencepiece_without_a_space_in_front() -> None:
    tokenizer = _tokenizer(SENTENCEPIECE, add_space_prefix=False, add_bos_token=False)
    assert tokenizer.encode("hello").ids == [260, 265, 266]
    assert tokenizer.decode([268, 268]) == " hello hello"
    assert _tokenizer(SENTENCEPIECE).decode([268, 268]) == "hello hello"


@pytest.mark.parametrize("has_prefix", [True, False])
@given(text=st.text().filter(lambda text: "▁" not in text))
def test_sentencepiece_text_survives_a_round_trip(has_prefix: bool, text: str) -> None:
    tokenizer = _tokenizer(SENTENCEPIECE, add_space_prefix=has_prefix)
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_toy_bytes_are_the_byte_alphabet() -> None:
    assert [_tokenizer().token_to_id(character) for character in BYTE_ALPHABET] == list(range(256))
