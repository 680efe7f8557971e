"""Lengths as users write them."""

from __future__ import annotations

import random

import pytest

from perf.load.lengths import Lengths, Span, parse_lengths


def test_forms() -> None:
    assert parse_lengths("128") == Lengths((Span(128, 128, 1),))
    assert parse_lengths("64-256") == Lengths((Span(64, 256, 1),))
    assert parse_lengths("64:0.8, 1024-2048:.2") == Lengths((Span(64, 64, 0.8), Span(1024, 2048, 0.2)))


@pytest.mark.parametrize("text", ["", "0", "x", "9-3", "5:0", "5:-1", "1,,2", "-5", "5-"])
def test_others_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected LENGTH, LOW-HIGH or LENGTH:WEIGHT with numbers above 0"):
        parse_lengths(text)


def test_weights_are_kept() -> None:
    source = random.Random(5)
    drawn = [parse_lengths("10:3,20-29:1").draw(source) for _ in range(4000)]
    assert drawn.count(10) / 4000 == pytest.approx(0.75, abs=0.03)
    assert set(drawn) == {10, *range(20, 30)}
