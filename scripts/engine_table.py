"""Writes the table of fields and engines into docs/engines.md: `python -m scripts.engine_table docs/engines.md`."""

from __future__ import annotations

import sys
from pathlib import Path

from engine.capabilities import NOTES, REFUSED
from ensemble_repo.contract import inputs_of
from tritone.gateway.reference import between_marks

BEGIN = "<!-- fields: made by `python -m scripts.engine_table docs/engines.md`; a test fails when it is stale -->"
END = "<!-- end of fields -->"

_GOES_WITH = {"top_logprobs": "return_log_probs", "guided_decoding_guide": "guided_decoding_guide_type"}
"""Fields that mean nothing without another, and are refused with it."""


def table() -> str:
    """Every field that some engine refuses or takes in its own way; and how many the others are."""
    engines = list(REFUSED)
    names = [tensor.name for tensor in inputs_of("preprocess")]
    told = {name: [_cell(name, engine) for engine in engines] for name in names}
    rows = [(f"`{name}`", *cells) for name, cells in told.items() if set(cells) != {"yes"}]
    others = [name for name, cells in told.items() if set(cells) == {"yes"}]
    lines = [("field", *engines), ("---",) * (1 + len(engines)), *rows, ("all others", *["yes"] * len(engines))]
    listed = ", ".join(f"`{name}`" for name in others)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + f"\n\nAll others are {listed}."


def _cell(name: str, engine: str) -> str:
    field = _GOES_WITH.get(name, name)
    if reason := REFUSED[engine].get(field):
        return f"refused: {reason}" if not reason.startswith("takes ") else reason
    note = NOTES.get(engine, {}).get(field)
    return f"yes; {note}" if note else "yes"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(between_marks(path.read_text("utf-8"), BEGIN, END, table()), "utf-8")
