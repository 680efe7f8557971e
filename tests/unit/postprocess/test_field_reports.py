"""Public bug reports of other servers, each as a small stream with the right answer."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

import pytest

from postprocess.answer import Answer, Delta
from postprocess.stream_context import StreamContext
from postprocess.vocabulary import Vocabulary
from tests.toy_tokenizers import (
    BLANK_HELLO,
    BLANK_WORLD,
    FIRST_BYTE,
    HELLO,
    IM_END,
    PADDED_VOCAB_SIZE,
    THINK,
    byte_level_tokenizer,
)

from .streams import BYTE_FALLBACK, BYTE_LEVEL, joined, one_by_one, play, whole

END = frozenset({IM_END})
ENDING = StreamContext(end_ids=END)


def play_pieces(
    pieces: str, stop: tuple[str, ...], end: tuple[int, ...] = (), finish_reason: str = "stop"
) -> list[Delta]:
    """A stream of one token per piece, pieces separated by "|"; `end` comes in the last chunk."""
    texts = pieces.split("|")
    vocabulary = Vocabulary.of(byte_level_tokenizer(texts))
    chunks = [[PADDED_VOCAB_SIZE + texts.index(text)] for text in texts]
    chunks[-1] += end
    return play(chunks, vocabulary, StreamContext(stop=stop, end_ids=END), finish_reason)


@pytest.mark.parametrize(
    "chunks",
    [
        [[BLANK_HELLO], [BLANK_WORLD], [BLANK_HELLO, BLANK_WORLD]],
        [[BLANK_HELLO, BLANK_WORLD, BLANK_HELLO, BLANK_WORLD]],
        [[], [BLANK_HELLO, BLANK_WORLD, BLANK_HELLO], [BLANK_WORLD], []],
    ],
)
def test_b01_blanks_between_tokens_and_chunks_are_kept(chunks: list[list[int]]) -> None:
    assert joined(play(chunks, BYTE_FALLBACK)) == "Hello world Hello world"
    assert whole([token_id for chunk in chunks for token_id in chunk], BYTE_FALLBACK).text == "Hello world Hello world"


def test_b02_a_character_of_several_tokens_comes_out_whole() -> None:
    deltas = play([*one_by_one("é😀聪"), [IM_END]], context=ENDING)
    assert [delta.text for delta in deltas if delta.text] == ["é", "😀", "聪"]


@pytest.mark.parametrize("count", [4000, 8000])
def test_b03_invalid_bytes_flow_at_linear_cost(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = 0
    utf_8_decode = codecs.utf_8_decode

    def counting_decode(data: bytes, errors: str, final: bool) -> tuple[str, int]:
        nonlocal decoded
        decoded += len(data)
        return utf_8_decode(data, errors, final)

    monkeypatch.setattr(codecs, "utf_8_decode", counting_decode)
    answer = Answer(ENDING, BYTE_LEVEL)
    assert all(answer.feed([0x80]).text == "\ufffd" for _ in range(count))
    assert answer.feed([65, IM_END], "stop") == Delta("A", "stop")
    assert decoded == count + 1


def test_b05_text_already_sent_stays_when_a_byte_run_breaks() -> None:
    run = [FIRST_BYTE + byte for byte in (0xE4, 0xBD, 0xA0, 0xFF)]
    deltas = play([[token_id] for token_id in [*run, HELLO]], BYTE_FALLBACK)
    assert [delta.text for delta in deltas] == ["", "", "你", "\ufffd", "Hello"]
    assert whole([*run, HELLO], BYTE_FALLBACK).text == "你\ufffdHello"


def test_b06_a_prompt_that_ends_inside_a_character_does_not_leak() -> None:
    prompt, output = tuple(b"Hello world \xf0\x9f"), [[0x98], [0x80], [*b"!"]]
    # Without echo an answer is decoded on its own: the prompt's bytes are the client's.
    assert joined(play(output)) == "\ufffd\ufffd!"
    assert joined(play(output, context=StreamContext(echo_ids=prompt))) == "Hello world 😀!"


@pytest.mark.parametrize(
    ("ids", "skipped", "shown"),
    [
        ([THINK, *b"ok 1"], "<think>ok 1", "<think>ok 1"),
        ([*b"a", IM_END, *b"b"], "ab", "a<|im_end|>b"),
        ([0xF0, 0x9F, IM_END, 0x98, 0x80], "😀", "\ufffd<|im_end|>\ufffd\ufffd"),
    ],
)
def test_b09_added_tokens_bring_no_blanks(ids: list[int], skipped: str, shown: str) -> None:
    chunks = [[token_id] for token_id in ids]
    assert joined(play(chunks, context=StreamContext(skip_special=True))) == skipped
    assert joined(play(chunks, context=StreamContext(skip_special=False))) == shown


@pytest.mark.parametrize("token_id", [300, -1, 2**32])
def test_b11_an_id_outside_the_vocabulary_is_no_text(token_id: int) -> None:
    answer = Answer(StreamContext(), BYTE_LEVEL)
    assert [answer.feed([97]).text, answer.feed([token_id]).text, answer.feed([98]).text] == ["a", "", "b"]
    assert answer.unknown_ids == 1


def test_b12_an_answer_knows_nothing_of_the_one_before() -> None:
    first = Answer(StreamContext(stop=("cx",)), BYTE_LEVEL)
    assert [first.feed(chunk).text for chunk in (b"ab", b"c", b"\xf0")] == ["ab", "", ""]
    assert joined(play([b"x", b"yz"], context=StreamContext(stop=("cx",)))) == "xyz"


@pytest.mark.parametrize(
    ("pieces", "stop", "expected"),
    [
        ("ABC|DEF|G|HI|J|K", "DEFGHIJ", [("ABC", ""), ("", ""), ("", ""), ("", ""), ("", "stop"), ("", "")]),
        ("ABC|DEF|G|X", "DEFGHIJ", [("ABC", ""), ("", ""), ("", ""), ("DEFGX", "stop")]),
        ("plain| text", "<|zzzzzzzzzzzz|>", [("plain", ""), (" text", "stop")]),
    ],
)
def test_b13_only_what_may_become_a_stop_string_waits(pieces: str, stop: str, expected: Sequence[Delta]) -> None:
    assert play_pieces(pieces, (stop,)) == expected


def test_b15_held_text_is_sent_when_the_answer_ends() -> None:
    assert joined(play_pieces("Hi|\n", ("\n\n",), end=(IM_END,))) == "Hi\n"
    assert play_pieces("a|<", ("</s>",), finish_reason="length") == [("a", ""), ("<", "length")]


@pytest.mark.parametrize(("stop", "text"), [(("",), "axb"), (("", "x"), "a"), ((), "axb")])
def test_b17_an_empty_stop_string_means_none(stop: tuple[str, ...], text: str) -> None:
    assert joined(play(one_by_one("axb"), context=StreamContext(stop=stop))) == text


@pytest.mark.parametrize(
    ("ids", "stop", "engine_reason", "expected"),
    [
        ([*b"abc", IM_END], (), "stop", Delta("abc", "stop")),
        ([*b"abcd"], (), "length", Delta("abcd", "length")),
        ([*b"abcd"], ("cd",), "length", Delta("ab", "stop")),
        ([*b"abcd"], ("cde",), "length", Delta("abcd", "length")),
    ],
    ids=["end token", "limit", "stop string", "stop string one token late"],
)
def test_b44_the_finish_reason_at_the_limit(
    ids: list[int], stop: tuple[str, ...], engine_reason: str, expected: Delta
) -> None:
    context = StreamContext(stop=stop, end_ids=END)
    deltas = play([[token_id] for token_id in ids], context=context, finish_reason=engine_reason)
    assert (joined(deltas), deltas[-1].finish_reason) == expected
    assert [bool(delta.finish_reason) for delta in deltas] == [False, False, False, True]
    assert whole(ids, context=context, finish_reason=engine_reason) == expected
