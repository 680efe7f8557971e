"""stop_words and bad_words: as texts from the client, and as token sequences for the engine.

A stop word is found in the text by the postprocess stage; its token sequence only lets an engine stop a little earlier.
A bad word is forbidden as a token sequence, at the start of a line and after a blank, which are different tokens.
An empty text means none, as clients of NVIDIA's ensemble send it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .errors import InvalidRequest
from .tokenizer import PromptTokenizer

MAX_WORDS = 64
MAX_WORD_CHARS = 1024

TokenSequence = tuple[int, ...]


def read_words(field: str, words: Sequence[str] | None) -> list[str]:
    """Return the words that are not empty. Raises InvalidRequest if there are too many or one is too long."""
    words = words or []
    if len(words) > MAX_WORDS:
        raise InvalidRequest(field, f"has {len(words)} entries, allowed: {MAX_WORDS}")
    longest = max(map(len, words), default=0)
    if longest > MAX_WORD_CHARS:
        raise InvalidRequest(field, f"has an entry of {longest} characters, allowed: {MAX_WORD_CHARS}")
    return [word for word in words if word]


def stop_sequences(words: list[str], encoded: list[list[int]], tokenizer: PromptTokenizer) -> list[TokenSequence]:
    """Token sequences of stop words. One that does not spell its word exactly would stop too early and is left out."""
    return [tuple(ids) for word, ids in zip(words, encoded, strict=True) if ids and word in tokenizer.decode(ids)]


def bad_spellings(words: list[str]) -> list[str]:
    """The texts to encode for bad words: each as it is, then each after a blank."""
    return words + [f" {word}" for word in words]


def bad_sequences(encoded: list[list[int]]) -> list[TokenSequence]:
    """Token sequences for the encoded `bad_spellings`, without those another one already covers."""
    half = len(encoded) // 2
    sequences = [tuple(ids) for ids in encoded[:half] if ids]
    for plain, after_blank in zip(encoded[:half], encoded[half:], strict=True):
        if after_blank and after_blank[-len(plain) :] != plain:
            sequences.append(tuple(after_blank))
    return sequences


def word_list_tensor(sequences: Sequence[TokenSequence]) -> npt.NDArray[np.int32]:
    """TensorRT-LLM's word list, int32[2, L]: ids one after the other, padded with 0; end offsets, padded with -1."""
    ids = [token for sequence in sequences for token in sequence]
    tensor = np.full((2, len(ids)), -1, dtype=np.int32)
    tensor[0] = ids
    tensor[1, : len(sequences)] = np.cumsum([len(sequence) for sequence in sequences])
    return tensor
