from __future__ import annotations

import json
from typing import Any

import pytest
from tokenizers import Regex, decoders, pre_tokenizers

from postprocess.piece_rule import PieceRule, piece_rule


def section(decoder: decoders.Decoder) -> dict[str, Any]:
    """The decoder section of a `tokenizer.json`."""
    fields: dict[str, Any] = json.loads(decoder.__getstate__())
    return fields


def rule_of(*steps: decoders.Decoder) -> PieceRule:
    rule = piece_rule(section(decoders.Sequence(list(steps))))
    assert rule is not None
    return rule


def test_byte_level_alphabet_covers_every_byte_once() -> None:
    rule = rule_of(decoders.ByteLevel())
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    assert sorted(rule.to_bytes(character) for character in alphabet) == [bytes([byte]) for byte in range(256)]
    assert rule.to_bytes("\u0120caf\u00c3\u00a9") == " café".encode()


def test_byte_level_takes_an_added_token_in_plain_characters_as_it_is() -> None:
    rule = rule_of(decoders.ByteLevel())
    assert rule.to_bytes("<a b>") == b"<a b>"
    assert rule.to_bytes("聪") == "聪".encode()


def test_sentencepiece_decoder() -> None:
    rule = rule_of(decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0))
    assert rule.to_bytes("\u2581a\u2581b") == b" a b"
    assert rule.to_bytes("<0xF0>") == b"\xf0"
    assert rule.to_bytes("<0xG0>") == b"<0xG0>"
    assert (rule.strip_character, rule.strip_count, rule.is_start_special) == (" ", 1, False)


def test_bytes_are_text_without_byte_fallback() -> None:
    assert rule_of(decoders.Replace("\u2581", " "), decoders.Fuse()).to_bytes("<0xF0>") == b"<0xF0>"


def test_metaspace_drops_the_blank_of_the_first_piece() -> None:
    rule = rule_of(decoders.Metaspace())
    assert rule.is_start_special
    assert rule.to_bytes("\u2581a\u2581") == b" a "
    assert rule.to_bytes("\u2581a\u2581", is_start=True) == b"a"


def test_metaspace_without_prepending_keeps_the_blank_of_the_first_piece() -> None:
    rule = rule_of(decoders.Metaspace(prepend_scheme="never"))
    assert not rule.is_start_special
    assert rule.to_bytes("\u2581a", is_start=True) == b" a"


def test_nested_sequences_are_read() -> None:
    inner = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback()])
    assert rule_of(inner, decoders.Fuse()).to_bytes("<0x41>") == b"A"


@pytest.mark.parametrize(
    "decoder",
    [
        decoders.WordPiece(),
        decoders.CTC(),
        decoders.BPEDecoder(),
        decoders.Replace(Regex("a+"), "b"),
        decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 0, 1)]),
        decoders.Sequence([decoders.ByteFallback(), decoders.Replace("\u2581", " ")]),
        decoders.Sequence([decoders.Replace("\u2581", " "), decoders.Strip(" ", 1, 0)]),
        decoders.Sequence([decoders.ByteFallback(), decoders.ByteLevel()]),
        decoders.Sequence([]),
    ],
    ids=["wordpiece", "ctc", "bpe", "regex", "end strip", "late replace", "strip unfused", "byte kinds mixed", "empty"],
)
def test_decoders_that_need_the_pieces_around_have_no_rule(decoder: decoders.Decoder) -> None:
    assert piece_rule(section(decoder)) is None


def test_no_decoder_has_no_rule() -> None:
    assert piece_rule(None) is None
