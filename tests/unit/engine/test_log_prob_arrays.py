"""Log probabilities as tensors."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.adapter import TokenLogprob
from engine.log_prob_arrays import NO_TOKEN, log_prob_arrays


def test_chosen_tokens_alone() -> None:
    arrays = log_prob_arrays([TokenLogprob(-0.5), TokenLogprob(-math.inf)])
    assert {name: array.tolist() for name, array in arrays.items()} == {"output_log_probs": [[-0.5, -math.inf]]}
    assert arrays["output_log_probs"].dtype == np.float32


def test_likeliest_tokens_come_row_after_row() -> None:
    arrays = log_prob_arrays(
        [TokenLogprob(-0.5, ((3, -0.25), (1, -0.5))), TokenLogprob(0.0, ((9, 0.0), (2**40, -8.0)))]
    )
    assert {name: array.tolist() for name, array in arrays.items()} == {
        "output_log_probs": [[-0.5, 0.0]],
        "top_ids": [[3, 1, 9, NO_TOKEN]],
        "top_log_probs": [[-0.25, -0.5, 0.0, -8.0]],
    }
    assert (arrays["top_ids"].dtype, arrays["top_log_probs"].dtype) == (np.int32, np.float32)


def test_rows_of_different_lengths_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"^the engine gave different numbers of likeliest tokens: \[0, 1\]$"):
        log_prob_arrays([TokenLogprob(0.0), TokenLogprob(0.0, ((1, 0.0),))])
