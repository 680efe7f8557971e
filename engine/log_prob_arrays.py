"""Log probabilities as arrays for a chunk. Runs in the engine stage, only for requests that ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .adapter import TokenLogprob

NO_TOKEN = 2**31 - 1  # no vocabulary has it, so it is no text; stands for ids that do not fit into INT32


def log_prob_arrays(logprobs: Sequence[TokenLogprob]) -> dict[str, npt.NDArray[Any]]:
    """The chunk's tensors by name: one entry for each id, and k each for the likeliest ids, row after row.

    `output_log_probs` is float32 [1, n]. With k > 0 there are `top_ids`, int32 [1, n * k], and `top_log_probs`,
    float32 [1, n * k]. Raises ValueError when the tokens do not all have the same k.
    """
    arrays: dict[str, npt.NDArray[Any]] = {
        "output_log_probs": np.array([[token.logprob for token in logprobs]], np.float32)
    }
    counts = {len(token.top) for token in logprobs}
    if len(counts) > 1:
        raise ValueError(f"the engine gave different numbers of likeliest tokens: {sorted(counts)}")
    if counts != {0}:
        ids, values = zip(*(pair for token in logprobs for pair in token.top), strict=True)
        arrays["top_ids"] = np.array([[as_int32(token_id) for token_id in ids]], np.int32)
        arrays["top_log_probs"] = np.array([values], np.float32)
    return arrays


def as_int32(token_id: int) -> int:
    """The id if it fits, else NO_TOKEN."""
    return token_id if -1 <= token_id < NO_TOKEN else NO_TOKEN
