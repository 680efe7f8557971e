"""Log probabilities: which entries there are, when they come, and what they say."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import decoders

from postprocess.answer import Answer
from postprocess.logprobs import ChunkLogprobs, StreamLogprobs
from postprocess.stream_context import StreamContext
from postprocess.vocabulary import Vocabulary
from tests.toy_tokenizers import (
    BLANK,
    BLANK_HELLO,
    BLANK_MARK,
    BLANK_WORLD,
    BOS,
    FIRST_BYTE,
    HELLO,
    IM_END,
    THINK,
    byte_fallback_tokenizer,
    byte_level_tokenizer,
)

from .streams import BYTE_FALLBACK, BYTE_LEVEL, chunkings
from .test_answer import CONTEXTS, IDS

ASKED = StreamContext(has_logprobs=True)


def told(ids: Sequence[int], k: int = 1) -> ChunkLogprobs:
    """For each id a value that shows which it is, and k likeliest ids from it on."""
    top_ids = [token_id + n for token_id in ids for n in range(k)]
    return ChunkLogprobs([-token_id / 8 for token_id in ids], top_ids, [-token_id / 4 for token_id in top_ids])


def entries(
    ids: Sequence[int], vocabulary: Vocabulary = BYTE_LEVEL, k: int = 0, is_text_start: bool = True, **options: bool
) -> list[dict[str, Any]]:
    logprobs = StreamLogprobs(vocabulary, **{"skip_special": True, **options}, is_text_start=is_text_start)
    logprobs.add(ids, told(ids, k))
    return read(logprobs.take(len(ids)))


def read(text: str) -> list[dict[str, Any]]:
    """Strict JSON on one line of ASCII."""
    assert text.isascii()
    assert "\n" not in text
    loaded: list[dict[str, Any]] = json.loads(text, parse_constant=pytest.fail)
    return loaded


def play(
    chunks: Sequence[Sequence[int]], context: StreamContext, finish_reason: str, vocabulary: Vocabulary = BYTE_LEVEL
) -> tuple[Answer, list[tuple[str, list[dict[str, Any]]]]]:
    """Text and entries of each response, as `Streams` makes them: one for each chunk that has text, and the last."""
    answer = Answer(context, vocabulary)
    assert answer.logprobs
    replies = []
    for n, chunk in enumerate(chunks, 1):
        answer.logprobs.add(chunk, told(chunk))
        delta = answer.feed(chunk, finish_reason if n == len(chunks) else "")
        if delta.text or delta.finish_reason:
            replies.append((delta.text, read(answer.logprobs.take(answer.num_decoded))))
    return answer, replies


def tokens(reply: tuple[str, list[dict[str, Any]]]) -> list[str]:
    return [entry["token"] for entry in reply[1]]


def test_an_entry_has_the_form_of_openais_chat_api() -> None:
    assert entries([97, 98], k=2) == [
        {
            "token": "a",
            "logprob": -12.125,
            "bytes": [97],
            "top_logprobs": [
                {"token": "a", "logprob": -24.25, "bytes": [97]},
                {"token": "b", "logprob": -24.5, "bytes": [98]},
            ],
        },
        {
            "token": "b",
            "logprob": -12.25,
            "bytes": [98],
            "top_logprobs": [
                {"token": "b", "logprob": -24.5, "bytes": [98]},
                {"token": "c", "logprob": -24.75, "bytes": [99]},
            ],
        },
    ]


def test_without_likeliest_tokens_their_list_is_empty() -> None:
    assert entries([97]) == [{"token": "a", "logprob": -12.125, "bytes": [97], "top_logprobs": []}]


@pytest.mark.parametrize(
    ("token_id", "token", "data"),
    [
        (0x0A, "\n", b"\n"),
        (0x22, '"', b'"'),
        (0xC3, "\ufffd", b"\xc3"),
        (THINK, "<think>", b"<think>"),
        (IM_END, "<|im_end|>", b""),
        (300, "", b""),
        (-1, "", b""),
        (2**31 - 1, "", b""),
    ],
)
def test_bytes_are_what_a_token_is_worth_in_the_text(token_id: int, token: str, data: bytes) -> None:
    (entry,) = entries([token_id])
    assert (entry["token"], bytes(entry["bytes"])) == (token, data)


def test_special_tokens_that_are_shown_have_bytes() -> None:
    (entry,) = entries([IM_END], skip_special=False)
    assert (entry["token"], bytes(entry["bytes"])) == ("<|im_end|>", b"<|im_end|>")


def test_a_decoder_that_looks_at_neighbours_decodes_each_token_alone() -> None:
    tokenizer = byte_level_tokenizer()
    tokenizer.decoder = decoders.CTC()
    (entry,) = entries([97], Vocabulary.of(tokenizer))
    assert (entry["token"], bytes(entry["bytes"])) == ("a", b"a")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(-math.inf, -9999.0), (-1e30, -9999.0), (math.nan, -9999.0), (math.inf, -9999.0), (-1e-9, -1e-9)],
)
def test_json_is_strict(value: float, shown: float) -> None:
    logprobs = StreamLogprobs(BYTE_LEVEL, skip_special=True, is_text_start=True)
    logprobs.add([97], ChunkLogprobs([value], [98], [value]))
    (entry,) = read(logprobs.take(1))
    assert (entry["logprob"], entry["top_logprobs"][0]["logprob"]) == (shown, shown)


@pytest.mark.parametrize(
    "wrong",
    [
        ChunkLogprobs(),
        ChunkLogprobs([0.0]),
        ChunkLogprobs([0.0] * 3),
        ChunkLogprobs([0.0] * 2, [1], [0.0]),
        ChunkLogprobs([0.0] * 2, [1, 2, 3], [0.0] * 3),
        ChunkLogprobs([0.0] * 2, [1, 2], [0.0]),
    ],
)
def test_log_probabilities_that_do_not_fit_the_ids_are_an_error(wrong: ChunkLogprobs) -> None:
    with pytest.raises(ValueError, match=r"^2 ids came with log probabilities of \["):
        StreamLogprobs(BYTE_LEVEL, skip_special=True, is_text_start=True).add([97, 98], wrong)


def test_a_chunk_without_ids_has_none() -> None:
    logprobs = StreamLogprobs(BYTE_LEVEL, skip_special=True, is_text_start=True)
    logprobs.add([], ChunkLogprobs())
    assert logprobs.take(0) == "[]"
    with pytest.raises(ValueError, match=r"^0 ids came with log probabilities of \[1, 0, 0\]$"):
        logprobs.add([], ChunkLogprobs([0.0]))


@pytest.mark.parametrize("is_text_start", [True, False])
def test_the_first_token_loses_its_blank_as_the_text_does(is_text_start: bool) -> None:
    metaspace = Vocabulary.of(byte_fallback_tokenizer(decoder=decoders.Metaspace(BLANK_MARK, "always")))
    ids = [BOS, BLANK_HELLO, BLANK_WORLD]
    for vocabulary in (BYTE_FALLBACK, metaspace):
        found = entries(ids, vocabulary, is_text_start=is_text_start)
        first = "Hello" if is_text_start else " Hello"
        assert [entry["token"] for entry in found] == ["<s>", first, " world"]
        assert b"".join(bytes(entry["bytes"]) for entry in found).decode() == f"{first} world"


def test_all_that_could_be_first_lose_their_blanks() -> None:
    logprobs = StreamLogprobs(BYTE_FALLBACK, skip_special=True, is_text_start=True)
    logprobs.add([BLANK, HELLO], ChunkLogprobs([0.0, 0.0], [BLANK_HELLO, HELLO, BLANK_HELLO, BOS], [0.0] * 4))
    found = [[one["token"] for one in [entry, *entry["top_logprobs"]]] for entry in read(logprobs.take(2))]
    assert found == [["", "Hello", "Hello"], ["Hello", " Hello", "<s>"]]


ALL = st.sampled_from([BYTE_LEVEL, BYTE_FALLBACK])


@given(chunkings(IDS), CONTEXTS, st.sampled_from(["stop", "length", "abort"]))
@example([[97], [IM_END, 97], [IM_END], []], StreamContext(end_ids=frozenset({IM_END})), "stop")
def test_entries_are_the_same_for_every_grouping(
    chunks: list[list[int]], context: StreamContext, finish_reason: str
) -> None:
    context = replace(context, has_logprobs=True)
    ids = [token_id for chunk in chunks for token_id in chunk]
    whole_answer, ((_, expected),) = play([ids], replace(context, is_stream=False), finish_reason)
    for is_stream in (True, False):
        for grouping in (chunks, [[token_id] for token_id in ids] or [[]]):
            answer, replies = play(grouping, replace(context, is_stream=is_stream), finish_reason)
            assert [entry for _, found in replies for entry in found] == expected
            assert is_stream or len(replies) == 1
    assert [entry["logprob"] for entry in expected] == [-token_id / 8 for token_id in ids[: len(expected)]]
    ends_with_end_id = finish_reason == "stop" and not answer.is_stopped and ids[-1:] and ids[-1] in context.end_ids
    assert len(expected) == whole_answer.num_output_tokens - bool(ends_with_end_id)


@given(ALL, chunkings(IDS), st.booleans())
def test_the_bytes_joined_are_the_text(vocabulary: Vocabulary, chunks: list[list[int]], skip_special: bool) -> None:
    if vocabulary is BYTE_FALLBACK:
        chunks = [[token_id + FIRST_BYTE for token_id in chunk] for chunk in chunks]
    _, replies = play(chunks, replace(ASKED, skip_special=skip_special), "length", vocabulary)
    data = b"".join(bytes(entry["bytes"]) for _, found in replies for entry in found)
    assert data.decode(errors="replace") == "".join(text for text, _ in replies)


def test_entries_wait_while_text_does() -> None:
    _, replies = play([b"a", b"\xc3", [0xA9], [IM_END], b"b"], ASKED, "length")
    assert [text for text, _ in replies] == ["a", "é", "b"]
    assert [tokens(reply) for reply in replies] == [["a"], ["\ufffd", "\ufffd"], ["<|im_end|>", "b"]]


def test_entries_end_with_the_id_that_completes_a_stop_string() -> None:
    for chunks in ([b"abcdef"], [b"ab", b"c", b"def"]):
        answer, replies = play(chunks, replace(ASKED, stop=("cd",)), "length")
        assert "".join(text for text, _ in replies) == "ab"
        assert [token for reply in replies for token in tokens(reply)] == list("abcd")
        assert answer.num_output_tokens == 4


def test_the_end_id_has_no_entry_unless_the_answer_goes_on() -> None:
    context = replace(ASKED, end_ids=frozenset({IM_END}))
    for chunks, expected in (
        ([[97, IM_END]], ["a"]),
        ([[97], [IM_END], []], ["a"]),
        ([[97, IM_END], [98]], ["a", "<|im_end|>", "b"]),
    ):
        _, replies = play(chunks, context, "stop")
        assert [token for reply in replies for token in tokens(reply)] == expected
    _, replies = play([[97, IM_END]], context, "length")
    assert [tokens(reply) for reply in replies] == [["a", "<|im_end|>"]]


def test_streams_that_do_not_ask_have_none() -> None:
    assert Answer(StreamContext(), BYTE_LEVEL).logprobs is None
