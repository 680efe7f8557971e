"""Plots and the page around them: every figure is labelled, colours are variables, nothing is fetched."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from perf.html_page import to_html
from perf.plots import DARK, LIGHT, PLACEHOLDERS, Bars, Plot, Series, draw, paint
from perf.tables import Table

CURVE = Plot(
    "Throughput",
    "streams at once",
    "output tokens/s",
    [
        Series("ours P50", [(1, 10.0), (8, 60.0), (32, 120.0)], "ours"),
        Series("ours P99", [(1, 9.0), (8, 40.0)], "ours", is_dashed=True),
        Series("theirs", [(1, 8.0), (32, 70.0)], "theirs"),
    ],
    has_log_x=True,
    ticks=(1, 8, 32),
)
BARS = Bars("Memory", "PSS, MiB", {"ours": 1500.0, "theirs": 3000.5})


def texts(svg: str) -> list[str]:
    """All text in a picture."""
    return [element.text or "" for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")]


def test_a_plot_has_title_axes_with_units_ticks_and_legend() -> None:
    found = texts(paint(draw(CURVE), LIGHT))
    for text in ("Throughput", "streams at once", "output tokens/s", "ours P50", "ours P99", "theirs", "1", "8", "32"):
        assert text in found


def test_bars_have_names_and_values() -> None:
    found = texts(paint(draw(BARS), LIGHT))
    for text in ("Memory", "PSS, MiB", "ours", "theirs", "1,500", "3,000"):
        assert text in found


@pytest.mark.parametrize("colors", [LIGHT, DARK])
def test_colours_are_those_asked_for_and_no_others(colors: dict[str, str]) -> None:
    svg = paint(draw(CURVE), colors)
    used = set(re.findall(r"#[0-9a-f]{6}", svg))
    assert used <= set(colors.values())
    assert colors["ink"] in used
    assert colors["series-2"] in used
    assert not any(placeholder in svg for placeholder in PLACEHOLDERS.values())


def test_dashed_series_of_one_group_share_a_colour() -> None:
    svg = paint(draw(CURVE), LIGHT)
    lines = re.findall(r'<path d="M[^"]*" clip-path[^>]*style="([^"]*)"', svg)
    dashed = [style for style in lines if "stroke-dasharray" in style]
    assert len(dashed) == 1
    assert LIGHT["series-1"] in dashed[0]


def test_plots_on_one_page_share_no_ids() -> None:
    drawings = [draw(plot) for plot in (CURVE, CURVE._replace(title="Other"))]
    ids = [set(re.findall(r' id="([^"]+)"', drawing)) for drawing in drawings]
    referred = [set(re.findall(r"#(p[0-9a-f]+)", drawing)) for drawing in drawings]
    assert referred[0] <= ids[0]
    assert not referred[0] & referred[1]


def test_page_is_whole_and_escaped() -> None:
    environment = {"command": ["perf", "load", "--model", "<m>"], "cores": 2, "packages": {"numpy": "1"}}
    table = Table("Latency, ms", ["load", "TTFT P50"], [["8 streams", 12.5], ["<b>", None]])
    html = to_html("A <run>", environment, [table], [draw(CURVE)], ["50% failed & so on"], ["TTFT: first - due"])
    for text in (
        "A &lt;run&gt;",
        "--model &#x27;&lt;m&gt;&#x27;",
        "&lt;b&gt;",
        "50% failed &amp; so on",
        "TTFT: first - due",
    ):
        assert text in html
    assert "<b>" not in html
    assert '<td class="text">8 streams</td><td>12.5</td>' in html
    assert "prefers-color-scheme: dark" in html
    assert "<script" not in html
    assert not re.search(r'(src|href)="?http', html.replace("http://www.w3.org", ""))
