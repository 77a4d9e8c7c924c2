"""Timeline: when each kernel runs, the causes of waiting, and when the shared units are busy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import escape

from tg2hdl.report.charts import COLORS, chart
from tg2hdl.report.context import ReportContext

__all__ = ["render"]

_PARTS = (("steps", COLORS[0]), ("fill and drain", COLORS[1]))


def render(context: ReportContext) -> str:
    """Bars over clock cycles."""
    kernels = context.facts["kernels"]
    rows = [f"{number}: {k['layer'] or k['name']}"[:40] for number, k in enumerate(kernels)]
    units = _unit_rows(kernels)
    traces = [_bars(name, color, kernels, rows) for name, color in _PARTS]
    traces += [_busy(unit, using, kernels) for unit, using in units.items()]
    layout = {
        "barmode": "overlay",
        "bargap": 0.3,
        "xaxis": {"title": {"text": "clock cycle after start"}, "rangemode": "tozero"},
        "yaxis": {"autorange": "reversed", "type": "category"},
        "showlegend": True,
    }
    caption = "Kernels and units over clock cycles; the wheel zooms, dragging moves, a double click shows everything."
    return chart(traces, layout, height=130 + 30 * (len(rows) + len(units)), caption=caption, zoom="x")


def _bars(part: str, color: str, kernels: Sequence[dict[str, Any]], rows: Sequence[str]) -> dict[str, Any]:
    starts, lengths = [], []
    for k in kernels:
        busy = k["steps"] * k["ii"]
        starts.append(k["start"] if part == "steps" else k["start"] + busy)
        lengths.append(busy if part == "steps" else max(0, k["end"] - k["start"] - busy))
    return {
        "type": "bar",
        "orientation": "h",
        "name": part,
        "y": rows,
        "x": lengths,
        "base": starts,
        "marker": {"color": color},
        "hovertext": [_hover(n, kernels) for n in range(len(kernels))],
        "hoverinfo": "text",
    }


def _busy(unit: str, using: Sequence[int], kernels: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": unit,
        "showlegend": False,
        "y": [unit] * len(using),
        "x": [kernels[n]["end"] - kernels[n]["start"] for n in using],
        "base": [kernels[n]["start"] for n in using],
        "marker": {"color": COLORS[2]},
        "hovertext": [f"<b>{escape(unit)}</b><br>used by kernel {n}" for n in using],
        "hoverinfo": "text",
    }


def _unit_rows(kernels: Sequence[dict[str, Any]]) -> dict[str, list[int]]:
    """Kernels that use each kind of unit."""
    rows: dict[str, list[int]] = {}
    for number, k in enumerate(kernels):
        for unit in (["multipliers"] if k["multipliers"] else []) + sorted(k["units"]):
            rows.setdefault(unit, []).append(number)
    return rows


def _hover(number: int, kernels: Sequence[dict[str, Any]]) -> str:
    k = kernels[number]
    lines = [
        f"<b>{escape(k['name'])}</b> {escape(k['layer'])}",
        f"cycles {k['start']:,} to {k['end']:,}: {k['end'] - k['start']:,}",
        f"{k['steps']:,} steps at II {k['ii']}, {k['multipliers']:,} multipliers",
    ]
    if not k["waits_for"]:
        lines.append("reads only inputs and weights")
    for wait in k["waits_for"]:
        producer = kernels[wait["kernel"]]
        lines.append(
            f"waits for {escape(wait['buffer'])} of kernel {wait['kernel']}, done at {producer['end']:,}"
        )
    return "<br>".join(lines)
