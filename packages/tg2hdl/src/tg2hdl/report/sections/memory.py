"""Memory map: buffers, words and lanes, and which kernel reads or writes them when."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup, escape

from tg2hdl.html_templates import environment
from tg2hdl.report.charts import COLORS, chart
from tg2hdl.report.context import ReportContext

__all__ = ["render"]


def render(context: ReportContext) -> str:
    """A table of the memories and a chart of their use over time."""
    memories = context.facts["memories"]
    table = (
        environment()
        .get_template("memory.html.j2")
        .render(
            memories=memories,
            largest=max((m["bits"] for m in memories), default=1),
            ecp5=any(m["block_rams_ecp5"] for m in memories),
        )
    )
    return Markup(table) + _use(context.facts)


def _use(facts: dict[str, Any]) -> Markup:
    kernels = facts["kernels"]
    names = [m["name"] for m in facts["memories"]]
    traces = []
    for verb, color in (("reads", COLORS[0]), ("writes", COLORS[1])):
        pairs = [(k, name) for k in kernels for name in k[verb] if name in names]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": "read" if verb == "reads" else "written",
                "y": [name for _, name in pairs],
                "x": [k["end"] - k["start"] for k, _ in pairs],
                "base": [k["start"] for k, _ in pairs],
                "offsetgroup": verb,
                "marker": {"color": color},
                "hovertext": [f"<b>{escape(n)}</b><br>{escape(k['name'])} {verb} it" for k, n in pairs],
                "hoverinfo": "text",
            }
        )
    layout = {
        "barmode": "group",
        "bargap": 0.25,
        "xaxis": {"title": {"text": "clock cycle after start"}, "rangemode": "tozero"},
        "yaxis": {
            "autorange": "reversed",
            "type": "category",
            "categoryorder": "array",
            "categoryarray": names,
        },
        "showlegend": True,
    }
    caption = "Kernels that read and write each memory, over clock cycles."
    return chart(traces, layout, height=130 + 34 * len(names), caption=caption, zoom="x")
