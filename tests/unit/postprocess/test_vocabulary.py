from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from postprocess.vocabulary import Vocabulary
from tests.toy_tokenizers import BLANK_WORLD, EOS, FIRST_BYTE, IM_END, PADDED_VOCAB_SIZE, THINK, byte_level_tokenizer

from .streams import BYTE_FALLBACK, BYTE_LEVEL


def test_byte_level_ids() -> None:
    assert [BYTE_LEVEL.with_special[byte] for byte in range(256)] == [bytes([byte]) for byte in range(256)]
    assert BYTE_LEVEL.with_special[IM_END] == b"<|im_end|>"
    assert BYTE_LEVEL.without_special[IM_END] == b""
    assert BYTE_LEVEL.without_special[THINK] == b"<think>"
    assert THINK + 1 not in BYTE_LEVEL.with_special


def test_byte_fallback_ids() -> None:
    assert BYTE_FALLBACK.with_special[FIRST_BYTE + 0xFF] == b"\xff"
    assert BYTE_FALLBACK.with_special[BLANK_WORLD] == b" world"
    assert BYTE_FALLBACK.with_special[EOS] == b"</s>"
    assert BYTE_FALLBACK.without_special[EOS] == b""


def test_a_saved_tokenizer_loads_to_the_same_tables(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer = byte_level_tokenizer(["聪"])
    tokenizer.save(str(path))
    loaded, built = Vocabulary.load(path), Vocabulary.of(tokenizer)
    assert loaded.with_special == built.with_special
    assert loaded.without_special == built.without_special
    assert loaded.with_special[PADDED_VOCAB_SIZE] == "聪".encode()


def test_without_a_decoder_the_tables_still_say_which_ids_exist() -> None:
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    tokenizer.add_special_tokens(["[END]"])
    vocabulary = Vocabulary.of(tokenizer)
    assert vocabulary.rule is None
    assert vocabulary.without_special == {0: b"a", 1: b"b", 2: b""}


@pytest.mark.parametrize("content", [None, "", "{}", "not json"])
def test_a_bad_file_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=r"tokenizer\.json cannot be read as a tokenizer\.json: "):
        Vocabulary.load(path)
