"""A plan's memory as one bar, in an SVG that follows the reader's light or dark."""

from __future__ import annotations

from html import escape

from build_engines.plan import Plan
from build_engines.show import PARTS, gib, title

_COLOURS = {
    "weights": "#4269d0",
    "activations": "#efb118",
    "runtime": "#ff725c",
    "kv_cache": "#3ca951",
    "free": "#9498a0",
}
_LEFT, _WIDTH, _TOP, _HEIGHT = 20, 760, 60, 56
_STYLE = """
text { font: 14px system-ui, sans-serif; fill: #222 } .title { font-size: 17px; font-weight: 600 } .back { fill: #fff }
@media (prefers-color-scheme: dark) { text { fill: #e6e6e6 } .back { fill: #16181d } }
"""


def memory_picture(name: str, plan: Plan) -> str:
    """The SVG: the bar, a scale in GiB, and a legend with each part's size."""
    x = float(_LEFT)
    bars, legend = [], []
    for place, part in enumerate(PARTS):
        size = getattr(plan.memory, part)
        width = _WIDTH * size / plan.memory.total
        label = f"{part.replace('kv_cache', 'KV cache')} {gib(size)}"
        bars.append(
            f'<rect x="{x:.1f}" y="{_TOP}" width="{width:.1f}" height="{_HEIGHT}" fill="{_COLOURS[part]}">'
            f"<title>{label}</title></rect>"
        )
        left, top = _LEFT + 255 * (place % 3), _TOP + _HEIGHT + 58 + 24 * (place // 3)
        legend.append(
            f'<rect x="{left}" y="{top - 12}" width="14" height="14" fill="{_COLOURS[part]}"/>'
            f'<text x="{left + 20}" y="{top}">{label}</text>'
        )
        x += width
    height = _TOP + _HEIGHT + 100
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT * 2 + _WIDTH} {height}" role="img">'
        f'<style>{_STYLE}</style><rect class="back" width="100%" height="100%"/>'
        f'<text class="title" x="{_LEFT}" y="34">{escape(title(name, plan))}</text>'
        f"{''.join(bars)}{_scale(plan)}{''.join(legend)}</svg>\n"
    )


def _scale(plan: Plan) -> str:
    y = _TOP + _HEIGHT + 18
    ends = [(_LEFT, "0", "start"), (_LEFT + _WIDTH, gib(plan.memory.total), "end")]
    half = (_LEFT + _WIDTH // 2, gib(plan.memory.total / 2), "middle")
    return "".join(
        f'<text x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>' for x, text, anchor in (ends[0], half, ends[1])
    )
