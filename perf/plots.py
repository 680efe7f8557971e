"""Plots as SVG, drawn by matplotlib from plain descriptions. Runs on the load host.

A page has them in its own colours (CSS variables, so that it can be light or dark); a file has fixed ones.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from tritone.errors import TritoneError

WIDTH_IN, HEIGHT_IN = 6.4, 3.8
PLACEHOLDERS = {
    "ink": "#010203",
    "grid": "#020304",
    "series-1": "#030401",
    "series-2": "#030402",
    "series-3": "#030403",
    "series-4": "#030404",
    "series-5": "#030405",
    "series-6": "#030406",
}
"""Colours that nobody would choose: put in by the drawing, and then replaced."""

LIGHT = {
    "ink": "#1f2328",
    "grid": "#d8dee4",
    "series-1": "#0b65c2",
    "series-2": "#c8501a",
    "series-3": "#1a7f4b",
    "series-4": "#8250df",
    "series-5": "#9a6700",
    "series-6": "#bf3989",
}
DARK = {
    "ink": "#e6edf3",
    "grid": "#3d444d",
    "series-1": "#58a6ff",
    "series-2": "#ff9d66",
    "series-3": "#56d364",
    "series-4": "#bc8cff",
    "series-5": "#e3b341",
    "series-6": "#f778ba",
}
_SERIES = [name for name in PLACEHOLDERS if name.startswith("series")]


class Series(NamedTuple):
    """Points (x, y) under a name. Those of one `group` have one colour; `is_dashed` tells two of it apart."""

    name: str
    points: Sequence[tuple[float, float]]
    group: str
    is_dashed: bool = False


class Plot(NamedTuple):
    """Lines over numbers. With `has_log_x` the axis is logarithmic; `ticks` are then the only numbers on it.

    `is_step` is for distributions: no markers, a share for each value.
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    has_log_x: bool = False
    is_step: bool = False
    ticks: Sequence[float] = ()


class Bars(NamedTuple):
    """A bar for each name."""

    title: str
    y_label: str
    bars: Mapping[str, float]


def draw(plot: Plot | Bars) -> str:
    """The plot as SVG without an XML head, to be painted."""
    plt, ticker = require_matplotlib()
    style = {
        "svg.fonttype": "none",
        "svg.hashsalt": plot.title,  # its ids then differ from those of another plot on the same page
        "font.family": "sans-serif",
        "font.size": 10,
        "text.color": PLACEHOLDERS["ink"],
        "axes.edgecolor": PLACEHOLDERS["grid"],
        "axes.labelcolor": PLACEHOLDERS["ink"],
        "xtick.color": PLACEHOLDERS["ink"],
        "ytick.color": PLACEHOLDERS["ink"],
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with plt.rc_context(style):
        figure, axes = plt.subplots(figsize=(WIDTH_IN, HEIGHT_IN), layout="constrained")
        try:
            figure.patch.set_visible(False)
            axes.patch.set_visible(False)
            axes.grid(visible=True, axis="y", color=PLACEHOLDERS["grid"], linewidth=0.8)
            axes.set_axisbelow(True)
            axes.set_title(plot.title, loc="left", fontweight="bold", fontsize=11)
            axes.set_ylabel(plot.y_label)
            axes.yaxis.set_major_formatter(ticker.FuncFormatter(_number))
            if isinstance(plot, Bars):
                _draw_bars(axes, plot)
            else:
                _draw_lines(axes, plot, ticker)
            file = io.StringIO()
            figure.savefig(file, format="svg", metadata={"Date": None})
        finally:
            plt.close(figure)
    return _clean(file.getvalue(), plot.title)


def paint(drawing: str, colors: Mapping[str, str]) -> str:
    """What was drawn, in any CSS colours by the names of PLACEHOLDERS."""
    for name, placeholder in PLACEHOLDERS.items():
        drawing = drawing.replace(placeholder, colors[name])
    return drawing


def _draw_lines(axes: Any, plot: Plot, ticker: Any) -> None:
    groups = list(dict.fromkeys(series.group for series in plot.series))
    for series in plot.series:
        x, y = zip(*series.points, strict=True) if series.points else ((), ())
        axes.plot(
            x,
            y,
            label=series.name,
            color=PLACEHOLDERS[_SERIES[groups.index(series.group) % len(_SERIES)]],
            linestyle="--" if series.is_dashed else "-",
            linewidth=1.8,
            marker="" if plot.is_step else "o",
            markersize=4,
            drawstyle="steps-post" if plot.is_step else "default",
        )
    axes.set_xlabel(plot.x_label)
    if plot.has_log_x:
        axes.set_xscale("log")
    if plot.ticks:
        axes.xaxis.set_major_locator(ticker.FixedLocator(list(plot.ticks)))
        axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(_number))
    axes.set_ylim(bottom=0)
    if len(plot.series) > 1:
        axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))


def _draw_bars(axes: Any, plot: Bars) -> None:
    colors = [PLACEHOLDERS[_SERIES[place % len(_SERIES)]] for place in range(len(plot.bars))]
    drawn = axes.bar(list(plot.bars), list(plot.bars.values()), color=colors, width=0.6)
    axes.bar_label(drawn, fmt=_number, padding=2, fontsize=9)
    if len(plot.bars) > 3:
        axes.tick_params(axis="x", labelrotation=20)


def _number(value: float, _: Any = None) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def _clean(svg: str, title: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)


def require_matplotlib() -> tuple[Any, Any]:
    """Its parts that are used here. Raises TritoneError where it is not installed."""
    try:
        import matplotlib

        matplotlib.use("agg")
        from matplotlib import pyplot, ticker
    except ImportError as error:
        raise TritoneError("the plots of a report need matplotlib: pip install 'tritone[perf]'") from error
    return pyplot, ticker
