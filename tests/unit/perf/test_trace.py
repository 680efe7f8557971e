"""The engine's trace, by request."""

from __future__ import annotations

from pathlib import Path

from perf.records import Emission
from perf.trace import read_trace


def test_emissions_are_grouped_in_order_of_first_tokens(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text("9 1 1000\n4 2 1100\n9 3 1200\n")
    assert read_trace(path) == [[Emission(1, 1000), Emission(3, 1200)], [Emission(2, 1100)]]
