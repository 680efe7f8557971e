from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from postprocess.answer import Answer, Delta
from postprocess.stream_context import StreamContext
from postprocess.vocabulary import Vocabulary
from tests.toy_tokenizers import BLANK_HELLO, BLANK_WORLD, BOS, FIRST_BYTE, IM_END, THINK

from .streams import BYTE_FALLBACK, BYTE_LEVEL, chunkings, joined, one_by_one, play, whole

END = StreamContext(end_ids=frozenset({IM_END}))

IDS = st.lists(st.sampled_from([*b"abn", 0x80, 0xC3, 0xA9, IM_END, THINK, 300]), max_size=16)
CONTEXTS = st.builds(
    StreamContext,
    stop=st.lists(st.sampled_from(["", "a", "ab", "ba\ufffd", "think", "é", "bnab"]), max_size=3).map(tuple),
    include_stop=st.booleans(),
    skip_special=st.booleans(),
    end_ids=st.sampled_from([frozenset(), frozenset({IM_END})]),
    min_tokens=st.sampled_from([0, 0, 3]),
    echo_text=st.sampled_from(["", "ab"]),
    echo_ids=st.sampled_from([(), (97, 0xC3)]),
)


@given(chunkings(IDS), CONTEXTS, st.sampled_from(["stop", "length", "abort"]))
@example([[97, IM_END], [], []], END, "stop")
def test_joined_deltas_are_the_answer_without_streaming(
    chunks: list[list[int]], context: StreamContext, finish_reason: str
) -> None:
    deltas = play(chunks, BYTE_LEVEL, context, finish_reason)
    ids = [token_id for chunk in chunks for token_id in chunk]
    expected = whole(ids, BYTE_LEVEL, context, finish_reason)
    assert joined(deltas) == expected.text
    assert [delta.finish_reason for delta in deltas if delta.finish_reason] == [expected.finish_reason]


@given(chunkings(IDS), CONTEXTS)
def test_the_token_count_is_the_same_for_every_grouping(chunks: list[list[int]], context: StreamContext) -> None:
    ids = [token_id for chunk in chunks for token_id in chunk]
    counts = []
    for grouping in (chunks, [ids], [[token_id] for token_id in ids] or [[]]):
        answer = Answer(context, BYTE_LEVEL)
        for chunk in grouping[:-1]:
            answer.feed(chunk)
        answer.feed(grouping[-1], "stop")
        counts.append(answer.num_output_tokens)
    assert len(set(counts)) == 1
    assert answer.is_stopped or counts[0] == len(ids)


def test_a_stop_string_ends_the_answer_and_later_chunks_give_nothing() -> None:
    answer = Answer(StreamContext(stop=("\n",)), BYTE_LEVEL)
    assert answer.feed(b"Hi\nyou") == Delta("Hi", "stop")
    assert answer.is_stopped
    assert answer.is_finished
    assert answer.num_output_tokens == 3
    assert answer.feed(b"more") == Delta("", "")
    assert answer.feed([], "abort") == Delta("", "")
    assert answer.num_output_tokens == 3


def test_a_stop_string_completed_in_the_last_chunk_changes_the_reason() -> None:
    assert play([b"a", b"b\n"], context=StreamContext(stop=("\n",)), finish_reason="length")[-1] == Delta("b", "stop")


def test_include_stop_keeps_the_stop_string() -> None:
    context = StreamContext(stop=("cd",), include_stop=True)
    assert play([b"ab", b"c", b"de"], context=context) == [Delta("ab", ""), Delta("", ""), Delta("cd", "stop")]


def test_a_stop_string_may_be_the_end_of_held_bytes() -> None:
    answer = Answer(StreamContext(stop=("\ufffd",)), BYTE_LEVEL)
    assert answer.feed([97, 0xF0, 0x9F]) == Delta("a", "")
    assert answer.feed([], "length") == Delta("", "stop")
    assert answer.num_output_tokens == 3


@pytest.mark.parametrize(
    ("chunks", "finish_reason", "text"),
    [
        ([[97, IM_END]], "stop", "a"),
        ([[97], [IM_END]], "stop", "a"),
        ([[97, IM_END], []], "stop", "a"),
        ([[97, IM_END], [], []], "stop", "a"),
        ([[97, IM_END], [98]], "stop", "a<|im_end|>b"),
        ([[97, IM_END]], "length", "a<|im_end|>"),
        ([[97, IM_END], []], "length", "a<|im_end|>"),
        ([[IM_END, IM_END]], "stop", "<|im_end|>"),
    ],
)
def test_the_end_id_is_counted_and_no_text(chunks: Sequence[Sequence[int]], finish_reason: str, text: str) -> None:
    answer = Answer(replace(END, skip_special=False), BYTE_LEVEL)
    deltas = [answer.feed(chunk) for chunk in chunks[:-1]] + [answer.feed(chunks[-1], finish_reason)]
    assert joined(deltas) == text
    assert answer.num_output_tokens == sum(map(len, chunks))


def test_tokens_are_counted_as_they_come() -> None:
    answer = Answer(END, BYTE_LEVEL)
    counts = []
    for chunk in ([97], [], [0xC3], [0xA9, IM_END]):
        answer.feed(chunk)
        counts.append(answer.num_output_tokens)
    assert counts == [1, 1, 2, 4]


def test_without_streaming_all_text_comes_at_the_end() -> None:
    context = StreamContext(is_stream=False, echo_text="Q: ")
    assert play([b"a", b"", b"b"], context=context) == [Delta("", ""), Delta("", ""), Delta("Q: ab", "stop")]


def test_without_streaming_a_stop_string_is_the_end() -> None:
    context = StreamContext(is_stream=False, stop=("b",))
    assert play([b"a", b"b", b"c"], context=context) == [Delta("", ""), Delta("a", "stop"), Delta("", "")]


def test_stop_strings_do_not_count_before_min_tokens() -> None:
    context = StreamContext(stop=("ab",), min_tokens=3)
    assert whole(list(b"ababab"), context=context) == Delta("abab", "stop")
    assert whole(list(b"abbbb"), context=context, finish_reason="length") == Delta("abbbb", "length")
    assert joined(play(one_by_one("ababab"), context=context)) == "abab"


def test_an_echo_is_not_searched_for_stop_strings() -> None:
    context = StreamContext(is_stream=False, stop=("ab", "b"), echo_text="ab a")
    assert whole(b"cb", context=context).text == "ab ac"
    assert whole(b"cb", context=replace(context, echo_text="", echo_ids=tuple(b"xab"))).text == "xabc"


def test_an_echo_of_ids_shows_special_tokens_and_completes_characters() -> None:
    context = StreamContext(is_stream=False, echo_ids=(IM_END, 0xF0, 0x9F))
    assert whole([0x98, 0x80, IM_END], context=context).text == "<|im_end|>😀"


@pytest.mark.parametrize(
    ("context", "text"),
    [
        (StreamContext(), "world"),
        (StreamContext(echo_text="Hello"), "Hello world"),
        (StreamContext(echo_ids=(BLANK_HELLO,)), "Hello world"),
        (StreamContext(echo_ids=(BOS, BLANK_HELLO)), "<s> Hello world"),
    ],
    ids=["no echo", "text", "ids", "ids with a special token"],
)
def test_only_an_answer_on_its_own_loses_its_leading_blank(context: StreamContext, text: str) -> None:
    assert whole([BLANK_WORLD], BYTE_FALLBACK, context).text == text


@pytest.mark.parametrize(("vocabulary", "offset"), [(BYTE_LEVEL, 0), (BYTE_FALLBACK, FIRST_BYTE)])
def test_an_unfinished_character_is_replaced_at_the_end(vocabulary: Vocabulary, offset: int) -> None:
    ids = [byte + offset for byte in (97, 0xF0, 0x9F)]
    assert play([[token_id] for token_id in ids], vocabulary)[-1] == Delta("\ufffd", "stop")
    assert whole(ids, vocabulary).text == "a\ufffd"


def test_unknown_ids_are_counted() -> None:
    answer = Answer(StreamContext(), BYTE_LEVEL)
    assert joined([answer.feed(chunk) for chunk in ([97, 300], [-1], [2**32, 98])]) == "ab"
    assert answer.unknown_ids == 3
    assert answer.num_output_tokens == 5


def test_plain_text_flows_at_once_beside_stop_strings() -> None:
    context = StreamContext(stop=("<|zzzzzzzzzzzz|>",))
    deltas = play(one_by_one("a b|c<d"), context=context)
    assert [delta.text for delta in deltas] == ["a", " ", "b", "|", "c", "", "<d"]
