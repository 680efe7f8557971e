"""Tables as text, for the terminal and for Markdown. Runs on the load host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Cell = str | float | int | None
"""What a table shows: text, a number, or nothing because the figure is not defined there."""


class Table(NamedTuple):
    """Rows under headings, all of one length."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def to_text(table: Table) -> str:
    """Aligned columns: numbers to the right, text to the left."""
    rows = [[shown(cell) for cell in row] for row in table.rows]
    widths = [max(map(len, column)) for column in zip(table.headings, *rows, strict=True)]
    is_text = [all(isinstance(row[place], str) for row in table.rows) for place in range(len(widths))]
    lines = [
        "  ".join(
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(cells, widths, is_text, strict=True)
        ).rstrip()
        for cells in [table.headings, *rows]
    ]
    return "\n".join([table.title, *lines])


def to_markdown(table: Table) -> str:
    """A table of GitHub's Markdown under a heading."""
    cells = [list(table.headings), ["---"] * len(table.headings)]
    cells += [[shown(cell) for cell in row] for row in table.rows]
    return "\n".join([f"## {table.title}", "", *(f"| {' | '.join(row)} |" for row in cells), ""])


def shown(cell: Cell) -> str:
    """Three significant digits, whole numbers whole, "-" for None."""
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}"
    return str(cell)
