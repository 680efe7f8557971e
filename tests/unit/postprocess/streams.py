"""Plays chunks of token ids through an `Answer`, and draws chunkings for property tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from postprocess.answer import Answer, Delta
from postprocess.stream_context import StreamContext
from postprocess.vocabulary import Vocabulary
from tests.toy_tokenizers import byte_fallback_tokenizer, byte_level_tokenizer

BYTE_LEVEL = Vocabulary.of(byte_level_tokenizer())
BYTE_FALLBACK = Vocabulary.of(byte_fallback_tokenizer())

DEFAULT = StreamContext()


def play(
    chunks: Sequence[Sequence[int]],
    vocabulary: Vocabulary = BYTE_LEVEL,
    context: StreamContext = DEFAULT,
    finish_reason: str = "stop",
) -> list[Delta]:
    """The deltas of a stream whose last chunk carries `finish_reason`."""
    answer = Answer(context, vocabulary)
    running = [answer.feed(chunk) for chunk in chunks[:-1]]
    return [*running, answer.feed(chunks[-1], finish_reason)]


def joined(deltas: Sequence[Delta]) -> str:
    return "".join(delta.text for delta in deltas)


def whole(
    ids: Sequence[int],
    vocabulary: Vocabulary = BYTE_LEVEL,
    context: StreamContext = DEFAULT,
    finish_reason: str = "stop",
) -> Delta:
    """The answer to the same request with `stream` false and all ids in one chunk."""
    (delta,) = play([ids], vocabulary, replace(context, is_stream=False), finish_reason)
    return delta


def one_by_one(data: str | bytes) -> list[list[int]]:
    """A byte-level stream of one byte per chunk."""
    return [[byte] for byte in (data.encode() if isinstance(data, str) else data)]


@st.composite
def chunkings(draw: st.DrawFn, ids: st.SearchStrategy[list[int]]) -> list[list[int]]:
    """Ids cut into chunks, some of them empty as heartbeats are."""
    tokens = draw(ids)
    cuts = sorted(draw(st.lists(st.integers(0, len(tokens)), max_size=8)))
    return [tokens[start:end] for start, end in zip([0, *cuts], [*cuts, len(tokens)], strict=True)]
