"""Area: estimated, or by kernel and kind before and after place and route, with the critical path."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from tg2hdl.exploration.figures import RESOURCES
from tg2hdl.html_templates import environment
from tg2hdl.report.context import ReportContext

__all__ = ["render"]

_KINDS = (("comb", "LUTs and carries"), ("ff", "flip-flops"), ("dsp", "multipliers"), ("bram", "block RAMs"))


def render(context: ReportContext) -> str:
    """Cells after synthesis; without synthesis, what is known before it."""
    synthesis = context.facts.get("synthesis")
    template = environment().get_template("area.html.j2")
    if synthesis is None:
        return template.render(synthesis=None, known=_known(context.facts))
    totals = {kind: sum(c.get(kind, 0) for c in synthesis["by_kernel"].values()) for kind, _ in _KINDS}
    return Markup(template.render(synthesis=synthesis, kinds=_KINDS, totals=totals))


def _known(facts: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Name, figure and remark of what is known of the area without synthesis."""
    found = [("multiplier blocks", f"{facts['multiplier_blocks']:,}", "of 18 x 18 bits, exact")]
    sweep = facts.get("sweep") or {"points": []}
    point = next((p for p in sweep["points"] if p["multipliers"] == sweep["now"]), None)
    if point is None:
        bits = sum(m["bits"] for m in facts["memories"])
        return [*found, ("memory", f"{bits:,} bits", "one copy of each")]
    for name, label in RESOURCES.items():
        if point[name] is not None and name != "dsp":
            of = f" of {point['has'][name]:,}" if name in point["has"] else ""
            found.append((label, f"{point[name]:,}{of}", "exact" if name == "bram" else "estimated"))
    if point["fmax"]:
        found.append(("clock", f"{point['fmax']:.0f} MHz", f"estimated for {sweep['part']}"))
    return found
