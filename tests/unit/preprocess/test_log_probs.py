from __future__ import annotations

import pytest

from preprocess.errors import InvalidRequest
from preprocess.fields import RequestFields
from preprocess.log_probs import resolve_top_logprobs


@pytest.mark.parametrize(
    ("asked", "top", "count"),
    [(None, None, None), (False, None, None), (True, None, 0), (True, 0, 0), (True, 1, 1), (True, 20, 20)],
)
def test_log_probs_come_only_when_asked_for(asked: bool | None, top: int | None, count: int | None) -> None:
    assert resolve_top_logprobs(RequestFields(return_log_probs=asked, top_logprobs=top)) == count


@pytest.mark.parametrize("top", [-1, 21, 2**31 - 1])
def test_a_number_out_of_range_is_refused(top: int) -> None:
    with pytest.raises(InvalidRequest) as caught:
        resolve_top_logprobs(RequestFields(return_log_probs=True, top_logprobs=top))
    assert str(caught.value) == f"top_logprobs: got {top}, allowed: 0 to 20"


@pytest.mark.parametrize("asked", [None, False])
@pytest.mark.parametrize("top", [0, 5])
def test_the_likeliest_tokens_come_with_the_log_probs_only(asked: bool | None, top: int) -> None:
    with pytest.raises(InvalidRequest) as caught:
        resolve_top_logprobs(RequestFields(return_log_probs=asked, top_logprobs=top))
    assert str(caught.value) == "top_logprobs: needs return_log_probs=true"
