"""The table in the documentation is made from the table in the code, and kept up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from tritone.gateway.reference import with_table

PAGE = Path(__file__).parents[4] / "docs" / "openai.md"


def test_page_is_up_to_date() -> None:
    page = PAGE.read_text("utf-8")
    assert page == with_table(page), "run: python -m tritone.gateway.reference docs/openai.md"


def test_a_page_without_marks_is_an_error() -> None:
    with pytest.raises(ValueError, match="the page has no <!-- fields"):
        with_table("# A page")
