"""Multipliers: the design with other numbers of them, under a slider."""

from __future__ import annotations

from markupsafe import Markup

from tg2hdl.html_templates import environment
from tg2hdl.report.charts import Dot, Series, as_json, scatter
from tg2hdl.report.context import ReportContext

__all__ = ["render"]


def render(context: ReportContext) -> str:
    """A slider over the designs that were planned beforehand; nothing where none was asked for."""
    sweep = context.facts.get("sweep")
    if not sweep:
        return ""
    if not sweep["points"]:
        text = (
            "<p>No design could be planned in {:.0f} seconds; <code>--sweep</code> takes a larger number.</p>"
        )
        return Markup(text).format(sweep["seconds"])
    points = sweep["points"]
    dots = [
        Dot(p["multipliers"], p["cycles"], f"{p['multipliers']} multipliers: {p['cycles']:,} cycles")
        for p in points
    ]
    caption = (
        "Clock cycles from start to done over multipliers; each point is planned, so its cycles are exact."
    )
    chart = scatter([Series("", dots, line=True)], x="multipliers", y="clock cycles", caption=caption)
    start = next((n for n, p in enumerate(points) if p["multipliers"] == sweep["now"]), 0)
    template = environment().get_template("slider.html.j2")
    return Markup(template.render(sweep=sweep, points=points, start=start, data=as_json(points))) + chart
