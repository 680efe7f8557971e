from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preprocess.errors import InvalidRequest
from preprocess.limits import check_prompt_length, resolve_min_tokens, resolve_output_len

INT32 = st.integers(-(2**31), 2**31 - 1)
LENGTHS = st.integers(1, 2**31 - 1)


@pytest.mark.parametrize(
    ("prompt_len", "max_tokens", "expected"),
    [(62, 2, 2), (63, 1, 1), (62, None, 2), (63, None, 1), (1, None, 63), (62, 1, 1)],
)
def test_the_last_fitting_lengths_pass(prompt_len: int, max_tokens: int | None, expected: int) -> None:
    check_prompt_length("text_input", prompt_len, 64)
    assert resolve_output_len(max_tokens, prompt_len, 64) == expected


@pytest.mark.parametrize("prompt_len", [64, 65])
def test_a_prompt_without_room_for_an_answer_is_refused(prompt_len: int) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_prompt_length("messages", prompt_len, 64)
    assert str(caught.value) == f"messages: the prompt has {prompt_len} tokens, allowed: 63 (context 64, answer 1)"


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"^text_input: the prompt has no tokens$"):
        check_prompt_length("text_input", 0, 64)


@pytest.mark.parametrize(
    ("max_tokens", "text"),
    [
        (2, "max_tokens: got 2, allowed: 1 (context 64 minus 63 tokens of prompt)"),
        (2**31 - 1, "max_tokens: got 2147483647, allowed: 1 (context 64 minus 63 tokens of prompt)"),
        (0, "max_tokens: got 0, must be at least 1"),
        (-1, "max_tokens: got -1, must be at least 1"),
    ],
)
def test_max_tokens_is_never_clamped(max_tokens: int, text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        resolve_output_len(max_tokens, 63, 64)
    assert str(caught.value) == text


@settings(deadline=None)
@given(max_tokens=st.none() | INT32, prompt_len=LENGTHS, max_model_len=LENGTHS)
def test_prompt_and_answer_fit_the_context_or_are_refused(
    max_tokens: int | None, prompt_len: int, max_model_len: int
) -> None:
    fits = prompt_len + (1 if max_tokens is None else max(max_tokens, 1)) <= max_model_len
    is_served = fits and (max_tokens is None or max_tokens >= 1)
    try:
        check_prompt_length("input_ids", prompt_len, max_model_len)
        output_len = resolve_output_len(max_tokens, prompt_len, max_model_len)
    except InvalidRequest:
        assert not is_served
    else:
        assert is_served
        assert output_len == (max_model_len - prompt_len if max_tokens is None else max_tokens)


@settings(deadline=None)
@given(min_tokens=INT32, output_len=LENGTHS)
def test_min_tokens_lies_between_none_and_all(min_tokens: int, output_len: int) -> None:
    if 0 <= min_tokens <= output_len:
        assert resolve_min_tokens(min_tokens, output_len) == min_tokens
    else:
        with pytest.raises(InvalidRequest):
            resolve_min_tokens(min_tokens, output_len)


def test_min_tokens_says_what_is_allowed() -> None:
    assert resolve_min_tokens(None, 8) == 0
    with pytest.raises(InvalidRequest, match=r"^min_tokens: got 9, allowed: 0 to 8 \(longest answer\)$"):
        resolve_min_tokens(9, 8)
