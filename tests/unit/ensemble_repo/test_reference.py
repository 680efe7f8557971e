"""The reference page is made from the tables, and kept up to date."""

from __future__ import annotations

from pathlib import Path

from ensemble_repo.reference import reference

PAGE = Path(__file__).parents[3] / "docs" / "reference.md"


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == reference(), "run: python -m ensemble_repo.reference > docs/reference.md"
