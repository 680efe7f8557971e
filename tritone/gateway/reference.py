"""Writes the table of fields into docs/openai.md: `python -m tritone.gateway.reference docs/openai.md`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .request_fields import BOTH, FIELDS, RequestField

BEGIN = "<!-- fields: made by `python -m tritone.gateway.reference docs/openai.md`; a test fails when it is stale -->"
END = "<!-- end of fields -->"

_HEAD = ("| field | route | what it does | note |", "| --- | --- | --- | --- |")


def fields_table() -> str:
    """Every field of a request as a Markdown table."""
    return "\n".join([*_HEAD, *(_row(field) for field in FIELDS)])


def with_table(page: str) -> str:
    """The page with the table of fields made anew. Raises ValueError if its marks are missing."""
    return between_marks(page, BEGIN, END, fields_table())


def between_marks(page: str, begin: str, end: str, table: str) -> str:
    """The page with this table between the two marks. Raises ValueError if they are missing."""
    before, found, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found and found_end):
        raise ValueError(f"the page has no {begin} … {end}")
    return f"{before}{begin}\n{table}\n{end}{after}"


def _row(field: RequestField) -> str:
    route = "both" if field.routes == BOTH else field.routes[0]
    return f"| `{field.name}` | {route} | {_use(field)} | {field.note} |"


def _use(field: RequestField) -> str:
    if field.use == "honoured" and field.ensemble:
        return "→ " + ", ".join(f"`{name}`" for name in field.ensemble.split(", "))
    if field.use == "refused" and field.neutral:
        return "refused unless " + ", ".join(f"`{json.dumps(value)}`" for value in field.neutral)
    return field.use


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_table(path.read_text("utf-8")), "utf-8")
