"""Other people's load tools say of a server what `python -m perf load` says, run as docs/recipes.md has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recipes.figures import TOOLS, Figures
from tests.recipes.measure import measure
from tests.recipes.recipes import PAGE, Recipe, install, read_recipes
from tests.service.serving import Server, serve

STEP_MS, FIRST_TOKEN_MS = 20.0, 200.0
REQUESTS, STREAMS, OUTPUT_TOKENS = 64, 8, 64
TPOT_TOLERANCE, E2E_TOLERANCE, THROUGHPUT_TOLERANCE = 0.03, 0.03, 0.05
TTFT_TOLERANCE_MS = 2 * STEP_MS
"""Answers begin at a step of the engine: who asks a little later may wait for the next one."""

RECIPES = read_recipes(PAGE.read_text())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The scripted engine behind the bundled model's tokenizer, of known speed."""
    speed = (f"tokens_per_second={1000 / STEP_MS}", f"first_token_s={FIRST_TOKEN_MS / 1000}")
    settings = [text for one in speed for text in ("--set", one)]
    with serve(tmp_path_factory.mktemp("recipes"), None, *settings) as running:
        yield running


def test_every_recipe_is_read() -> None:
    assert list(RECIPES) == list(TOOLS)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
def test_a_tool_agrees_with_ours(recipe: Recipe, server: Server, tmp_path: Path) -> None:
    install(recipe)
    addresses = {"TRITON": f"http://{server.http}", "GATEWAY": f"http://{server.gateway}"}
    ours, theirs = measure(recipe, addresses, tmp_path)
    assert (ours.requests, theirs.requests) == (REQUESTS, REQUESTS)
    _assert_known_speed(ours)
    assert theirs.tpot_ms == pytest.approx(ours.tpot_ms, rel=TPOT_TOLERANCE)
    assert theirs.ttft_ms == pytest.approx(ours.ttft_ms, abs=TTFT_TOLERANCE_MS)
    assert theirs.e2e_ms == pytest.approx(ours.e2e_ms, rel=E2E_TOLERANCE)
    assert theirs.tokens_per_s == pytest.approx(ours.tokens_per_s, rel=THROUGHPUT_TOLERANCE)


def _assert_known_speed(ours: Figures) -> None:
    assert ours.tpot_ms == pytest.approx(STEP_MS, rel=0.02)
    assert FIRST_TOKEN_MS < ours.ttft_ms < FIRST_TOKEN_MS + 4 * STEP_MS
    least_e2e_s = (FIRST_TOKEN_MS + (OUTPUT_TOKENS - 1) * STEP_MS) / 1000
    assert ours.tokens_per_s < STREAMS * OUTPUT_TOKENS / least_e2e_s
