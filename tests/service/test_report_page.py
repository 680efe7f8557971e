"""The HTML report as a browser shows it: light and dark, wide and narrow. Needs Chromium (Debian: chromium)."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from perf.html_page import to_html
from perf.load.figures import Point, figures_of
from perf.load.record import COUNTED, LoadRecord
from perf.load.report import NOTES, load_plots, load_tables
from perf.plots import Bars, draw

pytestmark = pytest.mark.service

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = ("background-networking", "component-update", "default-apps", "extensions", "gpu", "quic", "sync")
SIDES = {"openvino": 1.0, "vllm": 1.7, "vllm-serve": 2.1, "vllm-serve-tuned": 1.8, "transformers": 9.0}
"""Milliseconds that a token takes at each stream."""

TEXTS = """() => {
  const known = new Map();
  return [...document.querySelectorAll("h1, h2, p, pre, li, th, td, svg text")].map(element => {
    const box = element.getBoundingClientRect(), style = getComputedStyle(element);
    const svg = element.closest("svg"), frame = svg && svg.getBoundingClientRect();
    if (svg && !known.has(svg)) known.set(svg, known.size);
    const color = document.createElement("canvas").getContext("2d");
    color.fillStyle = svg ? style.fill : style.color;
    return {text: element.textContent.trim(), plot: svg ? known.get(svg) : null, color: color.fillStyle,
      box: [box.left, box.top, box.right, box.bottom],
      frame: frame && [frame.left, frame.top, frame.right, frame.bottom]};
  }).filter(found => found.text);
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on PATH: apt install chromium")
    arguments = ["--no-sandbox", "--no-first-run", *(f"--disable-{feature}" for feature in QUIET)]
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield running
        running.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a comparison of five sides, with everything a page can have."""
    sides = {side: [measured(streams, pace_ms) for streams in (1, 8, 32)] for side, pace_ms in SIDES.items()}
    slo_ms = {"ttft": 500.0, "tpot": 50.0}
    memory = Bars("Memory of all processes", "resident (PSS), MiB", {side: 400.0 * ms for side, ms in SIDES.items()})
    environment = {"command": ["perf", "compare", "--side", "openvino"], "cores": 2, "packages": {"numpy": "1.26.4"}}
    drawings = [draw(plot) for plot in (*load_plots(sides, slo_ms), memory)]
    page = to_html("Tritone: compare", environment, load_tables(sides, slo_ms), drawings, ["2 requests failed"], NOTES)
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page, "utf-8")
    return path


def measured(streams: int, pace_ms: float) -> Any:
    """A point of a load test with answers of 64 tokens, the steps of which take longer with more streams."""
    draw = random.Random(streams)
    point = Point("concurrency", streams)
    records = []
    for _ in range(streams * 4):
        received_ns, now = [], draw.randint(1, 1_000_000)
        started_ns = now
        for _ in range(64):
            now += round(pace_ms * streams**0.7 * draw.uniform(0.8, 1.4) * 1e6)
            received_ns.append(now)
        records.append(LoadRecord(started_ns, started_ns, received_ns, [1] * 64, received_ns[-1], None, COUNTED))
    return point, records, figures_of(point, records, {"ttft": 500.0, "tpot": 50.0}, None)


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[1440, 800, 390])
def page(request: pytest.FixtureRequest, scheme: str, browser: Browser, report: Path) -> Iterator[Page]:
    """The report, opened; it may ask for nothing but itself and say nothing in the console."""
    asked, said = [], []
    size = {"width": request.param, "height": 900}
    context = browser.new_context(color_scheme=scheme, viewport=size, java_script_enabled=True)
    opened = context.new_page()
    opened.on("request", lambda one: asked.append(one.url))
    opened.on("console", lambda one: said.append(one.text))
    opened.on("pageerror", lambda one: said.append(str(one)))
    opened.goto(report.as_uri())
    yield opened
    assert asked == [report.as_uri()]
    assert said == []
    context.close()


def test_page_is_readable(page: Page, scheme: str) -> None:
    texts = page.evaluate(TEXTS)
    assert page.locator("svg").count() == 9
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (luminance(rgb(background)) > 0.5) == (scheme == "light")
    unreadable = {one["text"] for one in texts if contrast(rgb(one["color"]), rgb(background)) < 4.5}
    assert not unreadable
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]


def test_no_text_of_a_plot_is_cut_off_or_covers_another(page: Page) -> None:
    drawn = [one for one in page.evaluate(TEXTS) if one["plot"] is not None]
    cut = [one["text"] for one in drawn if not is_within(one["box"], one["frame"])]
    assert not cut
    covered = [
        (one["text"], other["text"])
        for one, other in combinations(drawn, 2)
        if one["plot"] == other["plot"] and overlaps(one["box"], other["box"])
    ]
    assert not covered


def rgb(color: str) -> tuple[float, ...]:
    """The channels, 0 to 1, of `rgb(1, 2, 3)` or `#010203`."""
    if color.startswith("#"):
        return tuple(int(color[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return tuple(float(channel) / 255 for channel in color[color.index("(") + 1 : -1].split(",")[:3])


def luminance(channels: tuple[float, ...]) -> float:
    """Relative luminance as in WCAG 2.2."""
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Contrast ratio as in WCAG 2.2: 4.5 is the least for text."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def is_within(box: list[float], frame: list[float]) -> bool:
    """Whether a box lies in a frame, a pixel more or less."""
    return box[0] >= frame[0] - 1 and box[1] >= frame[1] - 1 and box[2] <= frame[2] + 1 and box[3] <= frame[3] + 1


def overlaps(one: list[float], other: list[float]) -> bool:
    """Whether two boxes share more than a rim: the box of a line of text is higher than its letters."""
    rim_x, rim_y = 0.5, 0.2 * min(one[3] - one[1], other[3] - other[1])
    return (
        min(one[2], other[2]) - max(one[0], other[0]) > rim_x and min(one[3], other[3]) - max(one[1], other[1]) > rim_y
    )
