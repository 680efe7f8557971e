from __future__ import annotations

import math
from typing import Any

import pytest

from preprocess.errors import InvalidRequest
from preprocess.fields import RequestFields
from preprocess.sampling import SamplingDefaults, check_value, resolve_sampling

GREEDY = SamplingDefaults(temperature=0.0, top_k=40, top_p=0.9, min_p=0.1, repetition_penalty=1.1)


def test_a_silent_client_gets_the_defaults() -> None:
    resolved = resolve_sampling(RequestFields(seed=7), GREEDY)
    assert resolved == {
        "temperature": 0.0,
        "top_k": 40,
        "top_p": 0.9,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "seed": 7,
    }


def test_what_the_client_says_wins() -> None:
    sent: dict[str, Any] = {
        "temperature": 0.5,
        "top_k": 1,
        "top_p": 1.0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": -2.0,
        "frequency_penalty": 2.0,
        "seed": 2**64 - 1,
    }
    assert resolve_sampling(RequestFields(beam_width=1, **sent), GREEDY) == sent


def test_a_seed_is_drawn_when_none_is_sent() -> None:
    seeds = {resolve_sampling(RequestFields(), GREEDY)["seed"] for _ in range(8)}
    assert len(seeds) == 8
    assert all(0 <= seed < 2**64 for seed in seeds)


@pytest.mark.parametrize(
    ("temperature", "expected"), [(0.0, 0.0), (-0.0, 0.0), (1e-9, 0.0), (9e-6, 0.0), (1e-4, 1e-4), (5.0, 5.0)]
)
def test_tiny_temperatures_are_greedy(temperature: float, expected: float) -> None:
    assert resolve_sampling(RequestFields(temperature=temperature), SamplingDefaults())["temperature"] == expected


@pytest.mark.parametrize(("top_k", "expected"), [(-1, 0), (0, 0), (1, 1), (2**31 - 1, 2**31 - 1)])
def test_minus_one_turns_top_k_off(top_k: int, expected: int) -> None:
    assert resolve_sampling(RequestFields(top_k=top_k), GREEDY)["top_k"] == expected


@pytest.mark.parametrize(
    "name", ["temperature", "top_p", "min_p", *(f"{kind}_penalty" for kind in ("repetition", "presence", "frequency"))]
)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused(name: str, value: float) -> None:
    sent: dict[str, Any] = {name: value}
    with pytest.raises(InvalidRequest, match=f"^{name}: got {value}, allowed: "):
        resolve_sampling(RequestFields(**sent), GREEDY)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("temperature", -1.0, "a finite number, 0 (greedy) or more"),
        ("top_k", -2, "0 or -1 (off), or 1 and more"),
        ("top_p", 0.0, "more than 0, up to 1"),
        ("top_p", 1.5, "more than 0, up to 1"),
        ("min_p", -0.25, "0 to 1"),
        ("min_p", 1.25, "0 to 1"),
        ("repetition_penalty", 0.0, "a finite number, more than 0"),
        ("presence_penalty", 2.5, "-2 to 2"),
        ("frequency_penalty", -2.5, "-2 to 2"),
        ("seed", -1, "0 to 18446744073709551615"),
        ("beam_width", 0, "1 (beam search is not offered)"),
        ("beam_width", 2, "1 (beam search is not offered)"),
    ],
)
def test_what_is_out_of_range_is_refused_with_the_range(name: str, value: float, allowed: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_value(name, value)
    assert str(caught.value) == f"{name}: got {value}, allowed: {allowed}"
