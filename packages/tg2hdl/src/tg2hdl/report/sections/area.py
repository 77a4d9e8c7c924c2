"""Area by kernel and kind, before and after place and route, and the critical path."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from tg2hdl.html_templates import environment
from tg2hdl.report.charts import COLORS, chart
from tg2hdl.report.context import ReportContext

__all__ = ["render"]

_KINDS = (("comb", "LUTs and carries"), ("ff", "flip-flops"), ("dsp", "multipliers"), ("bram", "block RAMs"))


def render(context: ReportContext) -> str:
    """Cells after synthesis; without synthesis, how to get them."""
    synthesis = context.facts.get("synthesis")
    if synthesis is None:
        return Markup(
            "<p>No synthesis ran for this report. <code>tg2hdl report --synth</code> adds cells by kernel, Fmax and "
            "the critical path.</p>"
        )
    table = environment().get_template("area.html.j2").render(synthesis=synthesis, kinds=_KINDS)
    return Markup(table) + _bars(synthesis["by_kernel"])


def _bars(by_kernel: dict[str, dict[str, int]]) -> Markup:
    totals: dict[str, int] = {kind: sum(c.get(kind, 0) for c in by_kernel.values()) for kind, _ in _KINDS}
    kinds = [(kind, name) for kind, name in _KINDS if totals[kind]]
    traces: list[dict[str, Any]] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": kernel,
            "y": [name for _, name in kinds],
            "x": [100 * cells.get(kind, 0) / totals[kind] for kind, _ in kinds],
            "marker": {"color": COLORS[number % len(COLORS)]},
            "hovertext": [f"<b>{kernel}</b><br>{cells.get(k, 0):,} {name}" for k, name in kinds],
            "hoverinfo": "text",
        }
        for number, (kernel, cells) in enumerate(by_kernel.items())
    ]
    layout = {
        "barmode": "stack",
        "xaxis": {"title": {"text": "share of the cells (%)"}, "range": [0, 100]},
        "yaxis": {"autorange": "reversed", "type": "category"},
        "showlegend": True,
    }
    return chart(
        traces,
        layout,
        height=280,
        caption="Share of each kernel in the cells of each kind, before place and route.",
    )
