"""Roofline: whether multipliers or memory ports limit each kernel."""

from __future__ import annotations

from markupsafe import escape

from tg2hdl.report.charts import COLORS, chart
from tg2hdl.report.context import ReportContext

__all__ = ["render"]


def render(context: ReportContext) -> str:
    """MACs per cycle over MACs per bit read; nothing for a model without multiplications."""
    kernels = [k for k in context.facts["kernels"] if k["macs"] and k["bits_read"] and k["multipliers"]]
    if not kernels:
        return ""
    intensity = [k["macs"] / k["bits_read"] for k in kernels]
    speed = [k["macs"] / k["cycles"] for k in kernels]
    multipliers = max(k["multipliers"] for k in kernels)
    bandwidth = max(k["bits_read_per_cycle"] for k in kernels)
    knee = multipliers / bandwidth
    low, high = min(*intensity, knee) / 4, max(*intensity, knee) * 4
    hover = [
        f"<b>{escape(k['layer'] or k['name'])}</b><br>{s:.3g} MACs a cycle of {k['multipliers']:,}"
        f"<br>{i:.3g} MACs per bit read<br>ports of {k['bits_read_per_cycle']:,} bits a cycle"
        for k, i, s in zip(kernels, intensity, speed, strict=True)
    ]
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": f"{bandwidth:,} bits a cycle, {multipliers:,} multipliers",
            "x": [low, knee, high],
            "y": [low * bandwidth, multipliers, multipliers],
            "line": {"color": COLORS[1], "width": 2},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter",
            "mode": "markers",
            "name": "kernels",
            "x": intensity,
            "y": speed,
            "marker": {"color": COLORS[0], "size": 12},
            "hovertext": hover,
            "hoverinfo": "text",
        },
    ]
    layout = {
        "xaxis": {"type": "log", "title": {"text": "MACs per bit read from memory"}},
        "yaxis": {"type": "log", "title": {"text": "MACs per cycle"}},
        "showlegend": True,
        "legend": {"orientation": "h", "y": 1.1},
    }
    caption = (
        "Each kernel below the roof: the slope is the widest set of memory ports of any kernel, the flat part all "
        "multipliers of the design."
    )
    return chart(traces, layout, height=420, caption=caption)
