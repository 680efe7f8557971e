"""Tables line up, and say "-" for what is not defined."""

from __future__ import annotations

import pytest

from perf.tables import Cell, Table, shown, to_markdown, to_text

TABLE = Table("Delivered", ["side", "streams", "tokens/s"], [["tritone", 64, 29893.1], ["x", 128, None]])


def test_text() -> None:
    assert to_text(TABLE).split("\n") == [
        "Delivered",
        "side     streams  tokens/s",
        "tritone       64    29,893",
        "x            128         -",
    ]


def test_markdown() -> None:
    assert to_markdown(TABLE).split("\n") == [
        "## Delivered",
        "",
        "| side | streams | tokens/s |",
        "| --- | --- | --- |",
        "| tritone | 64 | 29,893 |",
        "| x | 128 | - |",
        "",
    ]


@pytest.mark.parametrize(
    ("cell", "text"),
    [(None, "-"), (0.9341, "0.934"), (12.345, "12.3"), (1234.5, "1,234"), (100.0, "100"), (64, "64"), ("a", "a")],
)
def test_numbers_have_three_digits(cell: Cell, text: str) -> None:
    assert shown(cell) == text
