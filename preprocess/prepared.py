"""A request as the engine gets it: nothing left to look up, to check or to default."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .guide import Guide
from .word_lists import TokenSequence


@dataclass(frozen=True, slots=True)
class Prepared:
    """input_ids int32[n], n >= 1; request_output_len >= 1 and min_tokens in tokens; end_ids without repeats.

    temperature 0 is greedy, top_k 0 is off; seed (uint64) is the client's or a random one; stop_words are early hints.
    top_logprobs None is no log probabilities, guide.type "" a free answer, lora_name "" the model as it is.
    """

    input_ids: npt.NDArray[np.int32]
    request_output_len: int
    min_tokens: int
    end_ids: tuple[int, ...]
    stop_words: list[TokenSequence]
    bad_words: list[TokenSequence]
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    seed: int
    top_logprobs: int | None
    guide: Guide
    lora_name: str
    stream: bool
    stream_context: str
