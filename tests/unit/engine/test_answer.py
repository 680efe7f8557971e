"""Which ids may come next in an answer, and when it is over."""

from __future__ import annotations

from typing import Any

import pytest

from engine.adapter import EngineRequest
from engine.answer import Answer

PROMPT = (5, 6, 7)


def answer(*made: int, **fields: Any) -> Answer:
    """The answer to PROMPT after the ids `made`."""
    grown = Answer(EngineRequest(1, PROMPT, **{"max_tokens": 10, **fields}))
    grown.ids += made
    return grown


def test_made_ids_are_those_behind_the_prompt() -> None:
    grown = answer(8, 9)
    assert (grown.made, grown.made_ids, grown.ids) == (2, [8, 9], [5, 6, 7, 8, 9])


@pytest.mark.parametrize(
    ("made", "fields", "reason"),
    [
        ((8,), {}, ""),
        ((8, 9), {"max_tokens": 2}, "length"),
        ((8, 2), {"end_ids": (1, 2)}, "stop"),
        ((8, 2), {"end_ids": (2,), "max_tokens": 2}, "stop"),
        ((8, 9), {"stop_sequences": ((4, 4), (9,))}, "stop"),
        ((8, 9, 4), {"stop_sequences": ((9, 4),)}, "stop"),
        ((8, 9, 4, 8), {"stop_sequences": ((9, 4),)}, ""),
        ((8,), {"stop_sequences": ((7, 8),)}, ""),  # begins in the prompt
        ((8, 9), {"stop_sequences": ((8, 9),), "min_tokens": 1}, ""),  # begins within the first `min_tokens`
        ((4, 8, 9), {"stop_sequences": ((8, 9),), "min_tokens": 1}, "stop"),
    ],
)
def test_what_ends_an_answer(made: tuple[int, ...], fields: dict[str, Any], reason: str) -> None:
    assert answer(*made, **fields).finish_reason() == reason


@pytest.mark.parametrize(
    ("made", "fields", "banned"),
    [
        ((), {"end_ids": (1, 2), "stop_sequences": ((3,), (4, 4))}, set()),
        ((), {"end_ids": (1, 2), "stop_sequences": ((3,), (4, 4)), "min_tokens": 1}, {1, 2, 3}),
        ((8,), {"end_ids": (1,), "min_tokens": 2}, {1}),
        ((8, 8), {"end_ids": (1,), "min_tokens": 2}, set()),
        ((), {"bad_sequences": ((9,), (8, 4))}, {9}),
        ((8,), {"bad_sequences": ((9,), (8, 4), (7, 8, 3))}, {9, 4, 3}),  # the last one begins in the prompt
        ((8, 7), {"bad_sequences": ((8, 4), (7, 8, 3))}, set()),
        ((), {"bad_sequences": ((1, 2, 3, 4, 5, 6, 7, 8),)}, set()),  # longer than all there is
        ((), {"bad_sequences": ((5, 6, 7, 8),)}, {8}),
    ],
)
def test_what_must_not_come_next(made: tuple[int, ...], fields: dict[str, Any], banned: set[int]) -> None:
    assert answer(*made, **fields).banned_ids() == banned


@pytest.mark.parametrize(
    ("fields", "is_plain"),
    [
        ({"temperature": 0.5, "top_k": 3, "top_p": 0.5, "min_p": 0.5, "top_logprobs": 3, "end_ids": (1,)}, True),
        ({"stop_sequences": ((3,), (4, 4))}, True),
        ({"min_tokens": 1}, False),
        ({"bad_sequences": ((1,),)}, False),
        ({"repetition_penalty": 0.5}, False),
        ({"presence_penalty": -1.0}, False),
        ({"frequency_penalty": 1.0}, False),
    ],
)
def test_what_makes_a_request_other_than_plain(fields: dict[str, Any], is_plain: bool) -> None:
    assert answer(**fields).is_plain is is_plain


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_equal_seeds_draw_equal_numbers(seed: int) -> None:
    first, second, other = answer(seed=seed), answer(seed=seed), answer(seed=seed // 2 + 5)
    numbers = [first.draw() for _ in range(100)]
    assert numbers == [second.draw() for _ in range(100)]
    assert numbers != [other.draw() for _ in range(100)]
    assert all(0 <= number < 1 for number in numbers)
