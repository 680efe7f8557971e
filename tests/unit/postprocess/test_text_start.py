from __future__ import annotations

from tokenizers import decoders

from postprocess.text_start import text_start
from postprocess.vocabulary import Vocabulary
from tests.toy_tokenizers import BLANK, BLANK_HELLO, BLANK_MARK, HELLO, byte_fallback_tokenizer

from .streams import BYTE_FALLBACK, BYTE_LEVEL


def stripping(count: int) -> Vocabulary:
    steps = [decoders.Replace(BLANK_MARK, " "), decoders.Fuse(), decoders.Strip(" ", count, 0)]
    return Vocabulary.of(byte_fallback_tokenizer(decoder=decoders.Sequence(steps)))


def test_most_tokens_are_worth_the_same_everywhere() -> None:
    assert text_start(BYTE_LEVEL) is None
    plain = decoders.Metaspace(BLANK_MARK, "never")
    assert text_start(Vocabulary.of(byte_fallback_tokenizer(decoder=plain))) is None


def test_one_blank_is_cut_off_and_the_start_is_over() -> None:
    start = text_start(BYTE_FALLBACK)
    assert start is not None
    assert (start.to_bytes(BLANK_HELLO), start.to_bytes(HELLO), start.to_bytes(BLANK)) == (b"Hello", b"Hello", b"")
    assert start.after(BLANK_HELLO) is start.after(HELLO) is start.after(BLANK) is None


def test_so_many_blanks_are_cut_off_as_the_decoder_says() -> None:
    start = text_start(stripping(2))
    assert start is not None
    second = start.after(BLANK)
    assert second is not None
    assert (second.to_bytes(BLANK), second.to_bytes(BLANK_HELLO)) == (b"", b"Hello")
    assert second.after(BLANK) is None
    assert start.after(HELLO) is None


def test_metaspace_drops_its_blank_in_the_first_piece_only() -> None:
    start = text_start(Vocabulary.of(byte_fallback_tokenizer(decoder=decoders.Metaspace(BLANK_MARK, "always"))))
    assert start is not None
    assert (start.to_bytes(BLANK_HELLO), start.to_bytes(BLANK)) == (b"Hello", b"")
    assert start.after(BLANK) is None
