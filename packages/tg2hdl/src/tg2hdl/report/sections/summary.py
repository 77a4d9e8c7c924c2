"""Summary: the figures that decide whether a design is the right one."""

from __future__ import annotations

from typing import Any

from tg2hdl.html_templates import environment
from tg2hdl.report.context import ReportContext

__all__ = ["render"]


def render(context: ReportContext) -> str:
    """Tiles of the main figures, and the options."""
    return (
        environment().get_template("summary.html.j2").render(facts=context.facts, tiles=_tiles(context.facts))
    )


def _tiles(facts: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Name, value and remark of each figure."""
    cycles, multipliers = facts["cycles"], facts["multipliers"]
    bits = sum(m["bits"] for m in facts["memories"])
    tiles = [
        ("latency", f"{cycles:,} cycles", "from start to done, exact"),
        ("interval", f"{facts['interval']:,} cycles", "from one start to the next"),
        ("multipliers", f"{multipliers:,}", "of the datapath"),
        ("multipliers of 18 x 18 bits", f"{facts['multiplier_blocks']:,}", "in all products and units"),
    ]
    if useful := sum(k["slots"].get("useful", 0) for k in facts["kernels"]):
        most = next((r["capacity"] for r in facts["utilization"] if r["kind"] == "multipliers"), multipliers)
        share = useful / (cycles * most)
        tiles.append(("useful products", f"{100 * share:.1f} %", "of the cycles of all multipliers"))
    if channels := facts.get("constant_channels"):
        tiles.append(("constant channels", "left out", channels))
    tiles.append(("memory", f"{bits:,} bits", f"{len(facts['memories'])} memories, one copy of each"))
    synthesis = facts.get("synthesis")
    if synthesis and synthesis["fmax_mhz"]:
        fmax = synthesis["fmax_mhz"]
        tiles.append(("Fmax", f"{fmax:.0f} MHz", f"{synthesis['part']}, median of {len(synthesis['seeds'])}"))
        tiles.append(("time of a result", f"{cycles / fmax:,.1f} us", "latency / Fmax"))
    simulated = facts.get("simulated")
    if simulated:
        same = "as predicted" if simulated["compute"] == cycles else "not as predicted"
        tiles.append(("simulated", f"{simulated['compute']:,} cycles", f"{same}, on {simulated['engine']}"))
    return tiles
