"""Reads docs/recipes.md: what installs a tool, and what runs it. The tests run just that, so that it stays true."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "recipes.md"
DEFAULT_TOOLS = "~/.cache/tritone-recipes"
INSTALL_TIMEOUT_S, RUN_TIMEOUT_S = 1800, 300

_SECTION = re.compile(r"^## (?P<title>.+)\n(?P<body>(?:(?!^## ).*\n?)*)", re.MULTILINE)
_BLOCK = re.compile(r"^```sh (?P<kind>install|run)\n(?P<commands>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Recipe:
    """The commands of one section: `install` makes a virtual environment below $TOOLS, `run` measures into $OUT."""

    title: str
    install: str
    run: str


def read_recipes(page: str) -> dict[str, Recipe]:
    """The recipes by their titles. A section with blocks that are not one `install` and one `run` is a ValueError."""
    found = {}
    for section in _SECTION.finditer(page):
        title, blocks = section["title"], [(one["kind"], one["commands"]) for one in _BLOCK.finditer(section["body"])]
        if not blocks:
            continue
        if [kind for kind, _ in blocks] != ["install", "run"]:
            raise ValueError(f"{title}: expected one block `install`, then one `run`")
        found[title] = Recipe(title, *(commands for _, commands in blocks))
    return found


def tools_folder() -> Path:
    """Where the tools are installed: RECIPE_TOOLS, or a folder in the user's cache."""
    return Path(os.environ.get("RECIPE_TOOLS") or DEFAULT_TOOLS).expanduser()


def install(recipe: Recipe) -> None:
    """Run the install commands, unless these very commands were run here to their end."""
    tools = tools_folder()
    tools.mkdir(parents=True, exist_ok=True)
    done = tools / f"installed-{hashlib.sha256(recipe.install.encode()).hexdigest()[:16]}"
    if not done.exists():
        shell(recipe.install, {"TOOLS": str(tools)}, INSTALL_TIMEOUT_S)
        done.touch()


def shell(commands: str, variables: Mapping[str, str], timeout_s: float) -> None:
    """Run commands as a user's bash would from the repository's root; AssertionError with their output if one fails."""
    run = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", commands],
        cwd=PAGE.parents[1],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout_s,
    )
    assert run.returncode == 0, run.stdout[-8000:]
