"""Runs a recipe and `python -m perf load` on the same load, one after the other.

`python -m tests.recipes.measure` does so against the server on Tritone's own ports and shows the page's table.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import astuple
from pathlib import Path

from tests.recipes.figures import TOOLS, Figures, of_perf_load
from tests.recipes.recipes import PAGE, RUN_TIMEOUT_S, Recipe, install, read_recipes, shell, tools_folder
from tritone.bundled_model import bundled_model

LOCAL = {"TRITON": "http://127.0.0.1:8000", "GATEWAY": "http://127.0.0.1:9000"}
LOAD = "--concurrency 8 --requests 64 --prompt-tokens 64 --output-tokens 64"
"""What every recipe of the page says in its own words."""


def measure(recipe: Recipe, addresses: Mapping[str, str], out: Path) -> tuple[Figures, Figures]:
    """What `perf load` says of the server, and what the recipe's tool says. AssertionError if a command fails."""
    tool = TOOLS[recipe.title]
    ours, theirs = out / "ours", out / "theirs"
    theirs.mkdir(parents=True)
    url = addresses["TRITON" if tool.front == "generate_stream" else "GATEWAY"]
    target = f"--url {url} --model smollm2 --front {tool.front} --out {ours}"
    shell(f"{sys.executable} -m perf load {target} {LOAD}", {}, RUN_TIMEOUT_S)
    named = {"TOOLS": str(tools_folder()), "TOKENIZER": str(bundled_model()), "OUT": str(theirs)}
    shell(recipe.run, {**addresses, **named}, RUN_TIMEOUT_S)
    return of_perf_load(ours), tool.read(theirs)


def row(title: str, ours: Figures, theirs: Figures) -> str:
    """A row of the page's table: theirs, and ours behind a slash."""
    _, *mine = astuple(ours)
    _, *yours = astuple(theirs)
    digits = (0, 2, 0, 0)
    cells = (f"{you:,.{n}f} / {me:,.{n}f}" for you, me, n in zip(yours, mine, digits, strict=True))
    return f"| {title} | {' | '.join(cells)} |\n"


def main() -> None:
    """Every recipe of the page in turn."""
    with tempfile.TemporaryDirectory() as folder:
        for place, recipe in enumerate(read_recipes(PAGE.read_text()).values()):
            install(recipe)
            sys.stdout.write(row(recipe.title, *measure(recipe, LOCAL, Path(folder) / str(place))))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
