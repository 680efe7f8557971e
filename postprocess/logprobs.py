"""Log probabilities of one stream, as OpenAI's chat API writes them. Runs in Triton's Python backend.

Only streams that ask have any of this. Entries are JSON from the start: what is constant of a token is made once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from .text_start import text_start
from .vocabulary import Vocabulary

LEAST = -9999.0
"""Told for minus infinity, which JSON cannot say; as in vLLM."""


class ChunkLogprobs(NamedTuple):
    """Those of a chunk's ids: one of `chosen` for each, and k of `top_ids` and of `top` for each, row after row."""

    chosen: Sequence[float] = ()
    top_ids: Sequence[int] = ()
    top: Sequence[float] = ()


class StreamLogprobs:
    """The entries of one stream that wait for a response to go with.

    `bytes` are what a token is worth in the text: none for a special token that is hidden.
    """

    def __init__(self, vocabulary: Vocabulary, *, skip_special: bool, is_text_start: bool) -> None:
        self._shown = vocabulary.without_special if skip_special else vocabulary.with_special
        self._tokens = _tokens(vocabulary, skip_special)
        self._start = text_start(vocabulary) if is_text_start else None
        self._waiting: list[str] = []
        self._num_taken = 0

    def add(self, ids: Sequence[int], told: ChunkLogprobs) -> None:
        """Take over a chunk's. Raises ValueError when they do not fit its ids."""
        width = len(told.top_ids) // len(ids) if ids else 0
        if (len(told.chosen), len(told.top_ids), len(told.top)) != (len(ids), width * len(ids), len(told.top_ids)):
            raise ValueError(f"{len(ids)} ids came with log probabilities of {[len(values) for values in told]}")
        for n, token_id in enumerate(ids):
            row = slice(n * width, (n + 1) * width)
            top = ",".join(map(self._token, told.top_ids[row], told.top[row]))
            self._waiting.append(f'{self._token(token_id, told.chosen[n])[:-1]},"top_logprobs":[{top}]}}')
            if self._start and self._shown.get(token_id):
                self._start = self._start.after(token_id)

    def take(self, num_decoded: int) -> str:
        """The entries of the first `num_decoded` ids of the stream, without those taken before, as a JSON list."""
        count, self._num_taken = num_decoded - self._num_taken, num_decoded
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return f"[{','.join(taken)}]"

    def _token(self, token_id: int, logprob: float) -> str:
        if self._start and self._shown.get(token_id):
            data = self._start.to_bytes(token_id)
            before, after = _around(data, data)
        else:
            before, after = self._tokens[token_id]
        return f"{before}{logprob if LEAST < logprob < math.inf else LEAST}{after}"


class _Tokens(dict[int, tuple[str, str]]):
    """The JSON around a token's log probability, for each token told of so far."""

    def __init__(self, vocabulary: Vocabulary, skip_special: bool) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self._shown = vocabulary.without_special if skip_special else vocabulary.with_special

    def __missing__(self, token_id: int) -> tuple[str, str]:
        name = self._vocabulary.with_special.get(token_id, b"")
        if name and not self._vocabulary.rule:
            name = self._vocabulary.tokenizer.decode([token_id], skip_special_tokens=False).encode()
        self[token_id] = around = _around(name, name if self._shown.get(token_id) else b"")
        return around


@lru_cache(maxsize=2)
def _tokens(vocabulary: Vocabulary, skip_special: bool) -> _Tokens:
    return _Tokens(vocabulary, skip_special)


def _around(name: bytes, worth: bytes) -> tuple[str, str]:
    token = json.dumps(name.decode(errors="replace"))
    return f'{{"token":{token},"logprob":', f',"bytes":{json.dumps(list(worth), separators=(",", ":"))}}}'
