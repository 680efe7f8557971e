from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from postprocess.detokenizer import ByteDetokenizer, Detokenizer, WindowDetokenizer, detokenizer_for
from postprocess.vocabulary import Vocabulary
from tests.toy_tokenizers import (
    BLANK,
    BLANK_HELLO,
    BLANK_WORLD,
    EOS,
    HELLO,
    IM_END,
    THINK,
    byte_fallback_tokenizer,
    byte_level_tokenizer,
)

from .streams import BYTE_FALLBACK, BYTE_LEVEL, chunkings

CORPUS = ["the stream of the token", "Der Fluß der Wörter über Österreich", "聪明的人说你好", "😀😀 😂 👩‍👩‍👧"]


def trained_tokenizer() -> Tokenizer:
    """Byte-level BPE whose tokens cut characters anywhere, as trained ones do."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=alphabet, special_tokens=["<|end|>"], show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def word_piece_tokenizer() -> Tokenizer:
    pieces = ["[UNK]", "[END]", "un", "##believ", "##able", "!", "Wort"]
    tokenizer = Tokenizer(models.WordPiece({piece: n for n, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    tokenizer.add_special_tokens(["[END]"])
    return tokenizer


TRAINED = Vocabulary.of(trained_tokenizer())
WORD_PIECE = Vocabulary.of(word_piece_tokenizer())
NO_DECODER = Vocabulary.of(Tokenizer(models.WordLevel({"a": 0, "b": 1, "c": 2}, unk_token="a")))
METASPACE = Vocabulary.of(byte_fallback_tokenizer(decoder=decoders.Metaspace()))
# Marks are replaced behind the bytes, which no piece-by-piece rule gives exactly.
UNUSUAL = Vocabulary.of(
    byte_fallback_tokenizer(decoder=decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]))
)


def stream(vocabulary: Vocabulary, chunks: Sequence[Sequence[int]], *, skip_special: bool = True) -> list[str]:
    detokenizer = detokenizer_for(vocabulary)
    return [*(detokenizer.feed(chunk, skip_special=skip_special) for chunk in chunks), detokenizer.flush()]


def flat(chunks: Sequence[Sequence[int]]) -> list[int]:
    return [token_id for chunk in chunks for token_id in chunk]


def any_ids(limit: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, limit - 1), max_size=20)


# Bytes near the edges of UTF-8: leads, continuations, surrogates, too long forms, never valid.
AWKWARD = st.lists(st.sampled_from([0x41, 0x80, 0x9F, 0xA0, 0xBF, 0xC0, 0xC3, 0xE0, 0xED, 0xF0, 0xF4, 0xFF, IM_END]))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(chunkings(AWKWARD), st.booleans())
def test_byte_level_equals_decode_even_for_broken_bytes(chunks: list[list[int]], skip_special: bool) -> None:
    expected = BYTE_LEVEL.tokenizer.decode(flat(chunks), skip_special_tokens=skip_special)
    assert "".join(stream(BYTE_LEVEL, chunks, skip_special=skip_special)) == expected


@given(st.data(), st.booleans())
def test_trained_tokens_equal_decode(data: st.DataObject, skip_special: bool) -> None:
    ids = TEXT.map(lambda text: TRAINED.tokenizer.encode(text + "<|end|>" + text).ids) | any_ids(330)
    chunks = data.draw(chunkings(ids))
    expected = TRAINED.tokenizer.decode(flat(chunks), skip_special_tokens=skip_special)
    assert "".join(stream(TRAINED, chunks, skip_special=skip_special)) == expected


@given(st.data(), st.booleans())
def test_byte_fallback_equals_decode_for_whole_characters(data: st.DataObject, skip_special: bool) -> None:
    tokenizer = BYTE_FALLBACK.tokenizer
    text = st.lists(TEXT | st.sampled_from(["Hello", " world", " ", "</s>"])).map("".join)
    chunks = data.draw(chunkings(text.map(lambda text: tokenizer.encode(text).ids)))
    expected = tokenizer.decode(flat(chunks), skip_special_tokens=skip_special)
    assert "".join(stream(BYTE_FALLBACK, chunks, skip_special=skip_special)) == expected


@given(chunkings(any_ids(263)), st.booleans())
def test_broken_byte_fallback_is_the_same_for_every_chunking(chunks: list[list[int]], skip_special: bool) -> None:
    once = stream(BYTE_FALLBACK, [flat(chunks)], skip_special=skip_special)
    assert "".join(stream(BYTE_FALLBACK, chunks, skip_special=skip_special)) == "".join(once)


@given(
    chunkings(st.lists(st.sampled_from([EOS, 65, BLANK_HELLO, BLANK_WORLD, HELLO, BLANK, 9999]), max_size=8)),
    st.booleans(),
)
def test_metaspace_equals_decode(chunks: list[list[int]], skip_special: bool) -> None:
    expected = METASPACE.tokenizer.decode(flat(chunks), skip_special_tokens=skip_special)
    assert isinstance(detokenizer_for(METASPACE), ByteDetokenizer)
    assert "".join(stream(METASPACE, chunks, skip_special=skip_special)) == expected


@pytest.mark.parametrize("vocabulary", [WORD_PIECE, NO_DECODER], ids=["wordpiece", "no decoder"])
@given(data=st.data(), skip_special=st.booleans())
def test_other_decoders_equal_decode(vocabulary: Vocabulary, data: st.DataObject, skip_special: bool) -> None:
    chunks = data.draw(chunkings(any_ids(len(vocabulary.with_special) + 2)))
    expected = vocabulary.tokenizer.decode(flat(chunks), skip_special_tokens=skip_special)
    assert isinstance(detokenizer_for(vocabulary), WindowDetokenizer)
    assert "".join(stream(vocabulary, chunks, skip_special=skip_special)) == expected


@given(st.data())
def test_an_unusual_order_of_steps_equals_decode_for_whole_characters(data: st.DataObject) -> None:
    ids = TEXT.map(lambda text: UNUSUAL.tokenizer.encode(text).ids)
    chunks = data.draw(chunkings(ids))
    assert "".join(stream(UNUSUAL, chunks)) == UNUSUAL.tokenizer.decode(flat(chunks))


def test_the_window_waits_at_most_four_tokens_and_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    decode: Callable[[WindowDetokenizer, tuple[int, ...]], str] = WindowDetokenizer._decode

    def measured(detokenizer: WindowDetokenizer, ids: tuple[int, ...]) -> str:
        lengths.append(len(ids))
        return decode(detokenizer, ids)

    monkeypatch.setattr(WindowDetokenizer, "_decode", measured)
    deltas = stream(UNUSUAL, [[3 + 0x80]] * 400)
    assert all(any(deltas[start : start + 4]) for start in range(0, 400, 4))
    assert max(lengths) == 8


def test_only_the_blank_at_the_start_of_the_text_is_cut_off() -> None:
    chunks = [[EOS], [], [BLANK], [BLANK_HELLO], [BLANK_WORLD]]
    assert stream(BYTE_FALLBACK, chunks) == ["", "", "", " Hello", " world", ""]
    assert stream(BYTE_FALLBACK, chunks, skip_special=False) == ["</s>", "", " ", " Hello", " world", ""]


@pytest.mark.parametrize("vocabulary", [BYTE_FALLBACK, METASPACE], ids=["strip", "metaspace"])
def test_a_text_that_goes_on_keeps_its_blank(vocabulary: Vocabulary) -> None:
    detokenizer = detokenizer_for(vocabulary, is_text_start=False)
    assert detokenizer.feed([BLANK_WORLD], skip_special=True) == " world"


def test_a_shown_special_token_ends_a_character() -> None:
    chunks = [[0xF0, 0x9F], [IM_END], [0x98], [0x80]]
    assert stream(BYTE_LEVEL, chunks, skip_special=True) == ["", "", "", "😀", ""]
    assert stream(BYTE_LEVEL, chunks, skip_special=False) == ["", "\ufffd<|im_end|>", "\ufffd", "\ufffd", ""]


@pytest.mark.parametrize("vocabulary", [BYTE_LEVEL, WORD_PIECE], ids=["bytes", "window"])
def test_unknown_ids_are_counted_and_no_text(vocabulary: Vocabulary) -> None:
    detokenizer = detokenizer_for(vocabulary)
    text = detokenizer.feed([2, 300, -1, 2**32], skip_special=True) + detokenizer.feed([2], skip_special=True)
    assert text == vocabulary.tokenizer.decode([2, 2])
    assert detokenizer.unknown_ids == 3


@pytest.mark.parametrize("vocabulary", [BYTE_LEVEL, UNUSUAL], ids=["bytes", "window"])
def test_a_copy_is_a_snapshot(vocabulary: Vocabulary) -> None:
    detokenizer: Detokenizer = detokenizer_for(vocabulary)
    ids = vocabulary.tokenizer.encode("a😀b").ids
    detokenizer.feed(ids[:-2], skip_special=True)
    before = copy(detokenizer)
    assert detokenizer.feed(ids[-2:], skip_special=True) == before.feed(ids[-2:], skip_special=True) == "😀b"


def test_no_more_than_three_bytes_are_held() -> None:
    detokenizer = ByteDetokenizer(BYTE_LEVEL, BYTE_LEVEL.rule or pytest.fail("no rule"))
    for byte in [0xF0, 0x9F, 0x98, 0xF0, 0x80, 0xE2, 0x82] * 20:
        detokenizer.feed([byte], skip_special=True)
        assert len(detokenizer._pending) <= 3


def test_added_tokens_that_are_not_special_are_text() -> None:
    vocabulary = Vocabulary.of(byte_level_tokenizer(["ok", " 1"]))
    assert stream(vocabulary, [[THINK, 320], [321]]) == ["<think>ok", " 1", ""]
