from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from preprocess.end_tokens import MAX_STOP_TOKEN_IDS, resolve_end_ids
from preprocess.errors import InvalidRequest
from preprocess.fields import RequestFields


def fields(stop_token_ids: list[int] | None = None, **others: Any) -> RequestFields:
    ids = None if stop_token_ids is None else np.array(stop_token_ids, np.int32)
    return RequestFields(stop_token_ids=ids, **others)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (fields(), (2, 257)),
        (fields([65, 257, 65]), (2, 257, 65)),
        (fields(ignore_eos=True), ()),
        (fields([65], ignore_eos=True), (65,)),
        (fields(ignore_eos=False), (2, 257)),
        (fields(end_id=10, pad_id=0), (10,)),
        (fields([65], end_id=-1, pad_id=-1), (65,)),
        (fields(end_id=10, ignore_eos=True), ()),
        (fields(end_id=319), (319,)),
    ],
)
def test_end_tokens_of_model_and_client(sent: RequestFields, expected: tuple[int, ...]) -> None:
    assert resolve_end_ids(sent, (2, 257), vocab_size=320) == expected


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (fields([99999]), "stop_token_ids: has token id 99999, allowed: 0 to 319"),
        (fields([5, -1]), "stop_token_ids: has token id -1, allowed: 0 to 319"),
        (fields([1] * 5000), f"stop_token_ids: has 5000 entries, allowed: {MAX_STOP_TOKEN_IDS}"),
        (fields(end_id=320), "end_id: got 320, allowed: 0 to 319, or -1 for none"),
        (fields(pad_id=-2), "pad_id: got -2, allowed: 0 to 319, or -1 for none"),
    ],
)
def test_ids_outside_the_vocabulary_are_refused(sent: RequestFields, text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        resolve_end_ids(sent, (2,), vocab_size=320)
    assert str(caught.value) == text
