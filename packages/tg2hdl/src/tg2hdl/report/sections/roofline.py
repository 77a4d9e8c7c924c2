"""Roofline: whether multipliers or memory ports limit each kernel."""

from __future__ import annotations

from typing import Any

from markupsafe import escape

from tg2hdl.report.charts import COLORS, chart
from tg2hdl.report.context import ReportContext

__all__ = ["render"]


def render(context: ReportContext) -> str:
    """MACs per cycle over MACs per bit read; nothing for a model without multiplications."""
    kernels = [k for k in context.facts["kernels"] if k["macs"] and k["bits_read"] and k["multipliers"]]
    if not kernels:
        return ""
    roofs: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for kernel in kernels:
        roofs.setdefault((kernel["bits_read_per_cycle"], kernel["multipliers"]), []).append(kernel)
    places = [k["macs"] / k["bits_read"] for k in kernels] + [m / bits for bits, m in roofs]
    low, high = min(places) / 4, max(places) * 4
    traces: list[dict[str, Any]] = []
    for (color, below), (bits, multipliers) in zip(enumerate(roofs.values()), roofs, strict=True):
        look = {"color": COLORS[color % len(COLORS)]}
        name = f"{bits:,} bits a cycle, {multipliers:,} multipliers"
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "legendgroup": name,
                "x": [low, multipliers / bits, high],
                "y": [low * bits, multipliers, multipliers],
                "line": {**look, "width": 2},
                "hoverinfo": "skip",
            }
        )
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "legendgroup": name,
                "showlegend": False,
                "x": [k["macs"] / k["bits_read"] for k in below],
                "y": [k["macs"] / k["cycles"] for k in below],
                "marker": {**look, "size": 12},
                "hovertext": [_hover(k) for k in below],
                "hoverinfo": "text",
            }
        )
    layout = {
        "xaxis": {"type": "log", "title": {"text": "MACs per bit read from memory"}},
        "yaxis": {"type": "log", "title": {"text": "MACs per cycle"}},
        "showlegend": True,
    }
    caption = (
        "Each kernel below its own roof, in one colour: the slope is the bits that its memory ports give in a "
        "cycle, the flat part its multipliers."
    )
    return chart(traces, layout, height=420, caption=caption)


def _hover(kernel: dict[str, Any]) -> str:
    return (
        f"<b>{escape(kernel['layer'] or kernel['name'])}</b>"
        f"<br>{kernel['macs'] / kernel['cycles']:.3g} MACs a cycle of {kernel['multipliers']:,}"
        f"<br>{kernel['macs'] / kernel['bits_read']:.3g} MACs per bit read"
        f"<br>ports of {kernel['bits_read_per_cycle']:,} bits a cycle"
    )
