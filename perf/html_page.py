"""The self-contained HTML report of a run: tables, plots, what was run on what. Runs on the load host.

One file, no script, nothing fetched; light or dark as the reader's system is.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from perf.plots import DARK, LIGHT, paint
from perf.tables import Table, shown

CSS = """
body { margin: 0 auto; max-width: 84rem; padding: 1.5rem; font: 15px/1.5 system-ui, sans-serif;
  background: var(--paper); color: var(--ink); }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(32rem, 100%), 1fr)); gap: 1.5rem; }
.plots svg { width: 100%; height: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem; border-bottom: 1px solid var(--grid); text-align: right; white-space: nowrap; }
th:first-child, td:first-child, td.text, th.text { text-align: left; }
td.long { white-space: normal; overflow-wrap: anywhere; }
.warning { border-left: 4px solid var(--series-2); padding: .2rem .8rem; }
code, pre { font: 13px/1.45 ui-monospace, monospace; } pre { white-space: pre-wrap; overflow-wrap: anywhere; }
"""


def to_html(
    title: str,
    environment: Mapping[str, Any],
    tables: Sequence[Table],
    drawings: Sequence[str],
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> str:
    """The page. `environment` is perf.environment's, `drawings` are perf.plots', `notes` define the figures."""
    variables = {name: f"var(--{name})" for name in LIGHT}
    painted = "\n".join(paint(drawing, variables) for drawing in drawings)
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<pre>{escape(shlex.join(environment['command']))}</pre>",
        *(f'<p class="warning"><strong>Warning:</strong> {escape(warning)}</p>' for warning in warnings),
        f'<div class="plots">{painted}</div>' if drawings else "",
        *(_table(table) for table in tables),
        _list("How the figures are defined", notes),
        _environment(environment),
    ]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(title)}</title><style>{_colors()}{CSS}</style></head><body>",
            *parts,
            "</body></html>\n",
        ]
    )


def _colors() -> str:
    light, dark = ({**colors, "paper": paper} for colors, paper in ((LIGHT, "#ffffff"), (DARK, "#0d1117")))
    return f":root {{ {_declared(light)} }} @media (prefers-color-scheme: dark) {{ :root {{ {_declared(dark)} }} }}"


def _declared(colors: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {color};" for name, color in colors.items())


def _table(table: Table) -> str:
    is_text = [all(isinstance(row[place], str) for row in table.rows) for place in range(len(table.headings))]
    head = _row("th", table.headings, is_text)
    rows = "\n".join(_row("td", [shown(cell) for cell in row], is_text) for row in table.rows)
    return (
        f"<h2>{escape(table.title)}</h2>"
        f'<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'
    )


def _row(tag: str, cells: Sequence[str], is_text: Sequence[bool]) -> str:
    classes = [' class="text"' if text else "" for text in is_text]
    inner = "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for cell, kind in zip(cells, classes, strict=True))
    return f"<tr>{inner}</tr>"


def _list(title: str, entries: Sequence[str]) -> str:
    if not entries:
        return ""
    return f"<h2>{escape(title)}</h2><ul>{''.join(f'<li>{escape(entry)}</li>' for entry in entries)}</ul>"


def _environment(environment: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><td>{escape(name)}</td><td class="text long">{escape(_flat(value))}</td></tr>'
        for name, value in environment.items()
    )
    return f"<h2>Environment</h2><table><tbody>{rows}</tbody></table>"


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_flat(one)}" for name, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
