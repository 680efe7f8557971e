"""The table of fields and engines in docs/engines.md."""

from __future__ import annotations

from pathlib import Path

from scripts.engine_table import BEGIN, END, table
from tritone.gateway.reference import between_marks

PAGE = Path(__file__).parents[3] / "docs" / "engines.md"


def test_page_is_up_to_date() -> None:
    page = PAGE.read_text("utf-8")
    assert page == between_marks(page, BEGIN, END, table())


def test_refusals_notes_and_narrower_values_are_told() -> None:
    head, _, *rows = [line.strip("| ").split(" | ") for line in table().splitlines() if line.startswith("|")]
    cells = {row[0].strip("`"): dict(zip(head[1:], row[1:], strict=True)) for row in rows}
    assert cells["bad_words"]["openvino"] == "refused: cannot ban words"
    assert cells["bad_words"]["vllm"] == "yes"
    assert cells["guided_decoding_guide"] == cells["guided_decoding_guide_type"]
    assert cells["seed"]["openvino"] == "yes; repeats an answer only while no other is made"
    assert cells["temperature"]["vllm"] == "takes 0, or 0.01 to 2"
    assert "text_input" not in cells
    assert "`text_input`" in table().splitlines()[-1]
