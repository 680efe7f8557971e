"""Sampling against slow and obvious references: lists of Python floats, one row at a time."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.adapter import EngineRequest, TokenLogprob
from engine.answer import Answer
from engine.sampling import (
    adjusted,
    choose,
    drawn,
    filtered,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    token_logprobs,
)

VOCAB_SIZE = 12
NOT_A_NUMBER = float("nan")

IDS = st.integers(0, VOCAB_SIZE - 1)
# Eighths are exact in float32; a row without repeats has one right order.
ROW = st.permutations(range(-40, 40)).map(lambda eighths: [value / 8 for value in eighths[:VOCAB_SIZE]])
ROWS = st.lists(ROW, min_size=1, max_size=4)
SAMPLING = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.25, 0.5, 1.0, 2.0]),
        "top_k": st.integers(0, VOCAB_SIZE + 3),
        "top_p": st.just(1.0) | st.floats(0.01, 0.99),
        "min_p": st.just(0.0) | st.floats(0.01, 0.99),
    }
)


def answer(*made: int, prompt: tuple[int, ...] = (0,), **fields: Any) -> Answer:
    grown = Answer(EngineRequest(1, prompt, **{"max_tokens": 99, **fields}))
    grown.ids += made
    return grown


def softmax(scores: dict[int, float]) -> dict[int, float]:
    total = math.fsum(math.exp(score) for score in scores.values())
    return {token: math.exp(score) / total for token, score in scores.items()}


def is_near(value: float, limit: float) -> bool:
    """Whether rounding decides on which side of the limit the value is."""
    return abs(value - limit) < 1e-5


def probabilities(row: list[float], request: EngineRequest) -> dict[int, float]:
    """What each id that may be drawn is drawn with: temperature, then min_p, then top_k, then top_p."""
    scores = {token: score / request.temperature for token, score in enumerate(row)}
    likeliest = max(softmax(scores).values())
    assume(not any(is_near(value / likeliest, request.min_p) for value in softmax(scores).values()))
    scores = {token: scores[token] for token, value in softmax(scores).items() if value >= request.min_p * likeliest}
    ranked = sorted(scores, key=scores.__getitem__, reverse=True)
    ranked = ranked[: request.top_k or None]
    left = softmax({token: scores[token] for token in ranked})
    kept, so_far = [], 0.0
    for token in ranked:
        assume(not is_near(so_far, request.top_p))
        if so_far < request.top_p:
            kept.append(token)
        so_far += left[token]
    return softmax({token: scores[token] for token in kept})


@given(st.lists(st.tuples(ROW, SAMPLING), min_size=1, max_size=4))
def test_filtered_distribution_is_the_reference(asked: list[tuple[list[float], dict[str, Any]]]) -> None:
    answers = [answer(**fields) for _, fields in asked]
    made = filtered(torch.tensor([row for row, _ in asked]), answers).softmax(-1).tolist()
    for (row, _), grown, found in zip(asked, answers, made, strict=True):
        expected = probabilities(row, grown.request)
        assert {token for token, value in enumerate(found) if value} == set(expected)
        assert [found[token] for token in expected] == pytest.approx(list(expected.values()), rel=1e-4)


@given(ROWS)
def test_values_that_are_off_leave_everything_as_it_is(rows: list[list[float]]) -> None:
    scores = torch.tensor(rows)
    assert torch.equal(keep_min_p(scores, [0.0] * len(rows)), scores)
    assert torch.equal(keep_top_k(scores, [0] * len(rows)), scores)
    assert torch.equal(keep_top_p(scores, [1.0] * len(rows)), scores)
    assert torch.equal(filtered(scores, [answer(temperature=1.0)] * len(rows)), scores)


@given(ROW, SAMPLING)
def test_the_likeliest_id_is_never_left_out(row: list[float], fields: dict[str, Any]) -> None:
    [kept] = filtered(torch.tensor([row]), [answer(**fields)])
    assert kept.argmax() == max(range(VOCAB_SIZE), key=row.__getitem__)


def test_ids_as_likely_as_the_last_of_top_k_stay() -> None:
    scores = torch.tensor([[1.0, 3.0, 1.0, 0.0]])
    assert keep_top_k(scores, [2]).tolist() == [[1.0, 3.0, 1.0, -math.inf]]


def test_top_p_has_the_id_that_reaches_it() -> None:
    scores = torch.tensor([[0.5, 0.3, 0.2]]).log()
    kept = [keep_top_p(scores, [top_p]).isfinite().tolist()[0] for top_p in (0.49, 0.51, 0.79, 0.81)]
    assert kept == [[True, False, False], [True, True, False], [True, True, False], [True, True, True]]


@given(
    ROW,
    st.lists(IDS, min_size=1, max_size=8),
    st.lists(IDS, max_size=8),
    st.sampled_from([1.0, 0.5, 1.25, 2.0]),
    st.sampled_from([0.0, -1.5, 2.0]),
    st.sampled_from([0.0, -0.5, 1.0]),
)
def test_penalties_are_the_reference(
    row: list[float], prompt: list[int], made: list[int], repetition: float, presence: float, frequency: float
) -> None:
    expected = list(row)
    for token in {*prompt, *made}:
        expected[token] = row[token] / repetition if row[token] > 0 else row[token] * repetition
    for token in set(made):
        expected[token] -= presence + frequency * made.count(token)
    grown = answer(
        *made,
        prompt=tuple(prompt),
        repetition_penalty=repetition,
        presence_penalty=presence,
        frequency_penalty=frequency,
    )
    logits = torch.tensor([row, row])
    untouched, punished = adjusted(logits, [answer(), grown]).tolist()
    assert punished == pytest.approx(expected)
    assert untouched == row
    assert logits.tolist() == [row, row]


def test_banned_ids_cannot_be_chosen() -> None:
    scores = torch.tensor([[3.0, 2.0, 1.0, 0.0]] * 2)
    answers = [answer(end_ids=(0,), min_tokens=1, bad_sequences=((0, 1),)), answer(bad_sequences=((2,),))]
    inf = math.inf
    assert adjusted(scores, answers).tolist() == [[-inf, -inf, 1.0, 0.0], [3.0, 2.0, -inf, 0.0]]
    assert choose(scores, answers) == [2, 0]


def test_bans_outside_the_vocabulary_ban_nothing() -> None:
    scores = torch.tensor([[3.0, 2.0, 1.0, 0.0]])
    assert choose(scores, [answer(bad_sequences=((4,), (-4,), (-1,)))]) == [0]


@given(ROWS)
def test_greedy_is_the_likeliest_of_each_row(rows: list[list[float]]) -> None:
    expected = [max(range(VOCAB_SIZE), key=row.__getitem__) for row in rows]
    assert choose(torch.tensor(rows), [answer()] * len(rows)) == expected


@given(st.lists(st.tuples(ROW, SAMPLING, st.booleans(), st.integers(0, 2**64 - 1)), min_size=1, max_size=4))
def test_neighbours_change_no_choice(asked: list[tuple[list[float], dict[str, Any], bool, int]]) -> None:
    def answers() -> list[Answer]:
        return [answer(**{**fields, "seed": seed} if is_drawn else {}) for _, fields, is_drawn, seed in asked]

    together = choose(torch.tensor([row for row, *_ in asked]), answers())
    alone = [choose(torch.tensor([row]), [grown])[0] for (row, *_), grown in zip(asked, answers(), strict=True)]
    assert together == alone


@given(ROW, SAMPLING, st.floats(0, 1, exclude_max=True))
def test_number_drawn_finds_its_place_among_the_cumulated_probabilities(
    row: list[float], fields: dict[str, Any], number: float
) -> None:
    grown = answer(**fields)
    expected = probabilities(row, grown.request)
    so_far = 0.0
    for token in sorted(expected):
        so_far += expected[token]
        assume(not is_near(so_far, number))
        if number < so_far:
            break
    grown.draw = lambda: number  # type: ignore[method-assign]
    assert drawn(torch.tensor([row]), [grown]).tolist() == [token]


@given(ROW, SAMPLING, st.sampled_from([0.0, 1 - 2**-53]))
def test_least_and_most_number_draw_ids_that_were_kept(row: list[float], fields: dict[str, Any], number: float) -> None:
    grown = answer(**fields)
    grown.draw = lambda: number  # type: ignore[method-assign]
    [token] = drawn(torch.tensor([row]), [grown]).tolist()
    assert filtered(torch.tensor([row]), [grown])[0, token] > -math.inf


def test_ids_are_drawn_as_often_as_they_are_likely() -> None:
    scores = torch.tensor([[0.5, 0.0, 0.3, 0.2]]).log()
    grown = answer(temperature=1.0, seed=3)
    made = [choose(scores, [grown])[0] for _ in range(4000)]
    # four standard deviations of the least certain share are 0.032
    assert [made.count(token) / 4000 for token in range(4)] == pytest.approx([0.5, 0, 0.3, 0.2], abs=0.032)


@pytest.mark.parametrize("temperature", [0.0, 0.5])
@pytest.mark.parametrize(
    "row", [[1.0, NOT_A_NUMBER, 0.0], [NOT_A_NUMBER] * 3, [1.0, math.inf, 0.0], [-math.inf] * 3], ids=str
)
def test_row_without_a_possible_id_has_none_and_others_theirs(row: list[float], temperature: float) -> None:
    asked = {"temperature": temperature, "top_k": 2, "top_p": 0.5, "min_p": 0.1}
    logits = torch.tensor([row, [0.0, 0.0, 9.0]])
    assert choose(logits, [answer(**asked), answer(**asked)]) == [None, 2]


def test_answer_whose_ids_are_all_banned_has_none() -> None:
    bans = tuple((token,) for token in range(3))
    assert choose(torch.zeros(1, 3), [answer(bad_sequences=bans)]) == [None]


def test_log_probabilities_are_those_before_any_change() -> None:
    logits = torch.tensor([[0.0, 4.0, 2.0, 1.0]] * 4)
    asked = {"temperature": 0.1, "repetition_penalty": 5.0, "bad_sequences": ((1,),)}
    answers = [answer(top_logprobs=2, **asked), answer(), answer(top_logprobs=0), answer(top_logprobs=9)]
    total = math.log(sum(map(math.exp, (0.0, 4.0, 2.0, 1.0))))
    first, second, third, fourth = token_logprobs(logits, [3, 1, 1, 0], answers)
    assert second == ()
    assert [entry.logprob for entry in (*first, *third, *fourth)] == pytest.approx([1 - total, 4 - total, -total])
    assert [token for token, _ in first[0].top] == [1, 2]
    assert [value for _, value in first[0].top] == pytest.approx([4 - total, 2 - total])
    assert third[0].top == ()
    assert [token for token, _ in fourth[0].top] == [1, 2, 3, 0]  # the vocabulary has no more


def test_answer_without_an_id_has_no_log_probability() -> None:
    logits = torch.tensor([[0.0, -math.inf], [NOT_A_NUMBER, 0.0]])
    entries = token_logprobs(logits, [0, None], [answer(top_logprobs=1)] * 2)
    assert entries == [(TokenLogprob(0.0, ((0, 0.0),)),), ()]
