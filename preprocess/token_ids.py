"""Token ids sent by a client, checked before an engine can read outside its tables."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .errors import InvalidRequest


def check_ids(field: str, ids: npt.NDArray[np.int32], vocab_size: int) -> None:
    """Raise InvalidRequest naming the first of `ids` (int32[n]) that is not 0 <= id < vocab_size."""
    outside = ids[(ids < 0) | (ids >= vocab_size)]
    if outside.size:
        raise InvalidRequest(field, f"has token id {outside[0]}, allowed: 0 to {vocab_size - 1}")
