"""Utilization: steps, multipliers, units and memory ports over the cycles of a run, and what the lanes wait for."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from markupsafe import Markup

from tg2hdl.explain import explain_design
from tg2hdl.html_templates import environment
from tg2hdl.report.charts import heat_map
from tg2hdl.report.context import ReportContext
from tg2hdl.report.kernel_facts import result_names

__all__ = ["render"]

PORTS = 12
"""Memory ports of most traffic that are shown."""

KERNELS = 40
"""Kernels of most cycles that have a row."""

_NAMES = {
    "steps": "steps started",
    "multipliers": "multipliers",
    "unit": "{}",
    "read": "reads of {}",
    "write": "writes of {}",
}


def render(context: ReportContext) -> str:
    """A heat map, and a table of where the cycles of the multipliers go."""
    facts = context.facts
    rows = [row for row in facts["utilization"] if row["kind"] not in ("read", "write")]
    ports = sorted(
        (row for row in facts["utilization"] if row["kind"] in ("read", "write")), key=lambda r: -r["events"]
    )
    results = result_names(facts)
    shown = [
        {
            "name": _NAMES[row["kind"]].format(results.get(row["name"], row["name"])),
            "note": f"{row['events']:,}, at most {row['capacity']:,} a cycle",
            "used": row["used"],
        }
        for row in [*rows, *ports[:PORTS]]
    ]
    columns = len(shown[0]["used"]) if shown else 1
    longest = sorted(range(len(facts["kernels"])), key=lambda n: -facts["kernels"][n]["cycles"])[:KERNELS]
    kernels = [_running(facts["kernels"][n], facts["cycles"], columns, n) for n in sorted(longest)]
    caption = (
        "Share of each resource that is used, over the clock cycles after start, counted from the plan: 100 % is "
        "as many as there are. Below, when each kernel runs, and how many of its steps start in a cycle."
    )
    chart = heat_map("heat", [*shown, *kernels], (0, facts["cycles"]), caption)
    left = {"memory ports": len(ports) - PORTS, "kernels": len(facts["kernels"]) - KERNELS}
    texts = [f"{count} {what}" for what, count in left.items() if count > 0]
    more = f"<p>Not shown: {' and '.join(texts)} with less to do.</p>" if texts else ""
    return chart + Markup(more) + _waits(context)


def _running(kernel: dict[str, Any], cycles: int, columns: int, number: int) -> dict[str, Any]:
    """A row of a kernel: its steps in each column, as a share of the cycles of the column."""
    edges = [cycles * n // columns for n in range(columns + 1)]
    steps = kernel["steps"] * kernel["ii"]

    def started(cycle: int) -> float:
        return float(min(max(cycle - kernel["start"], 0), steps) / kernel["ii"])

    used = [(started(b) - started(a)) / max(1, b - a) for a, b in pairwise(edges)]
    note = f"{kernel['cycles']:,} cycles, {kernel['start']:,} to {kernel['end']:,}"
    return {"name": kernel["label"], "note": note, "used": used, "opens": f"k{number}"}


def _waits(context: ReportContext) -> Markup:
    kernels = context.facts["kernels"]
    explained = explain_design(
        context.accelerator.captured, context.accelerator.design, variants=False
    ).kernels
    reasons = [group.interval for group in explained for _ in range(group.count)]
    rows = []
    for number, (kernel, reason) in enumerate(zip(kernels, reasons, strict=True)):
        if kernel["slots"]:
            total = max(1, sum(kernel["slots"].values()))
            shares = [(name, count / total) for name, count in kernel["slots"].items()]
            rows.append({"k": kernel, "number": number, "shares": shares, "reason": reason, "total": total})
    totals: dict[str, int] = {}
    for row in rows:
        for name, count in row["k"]["slots"].items():
            totals[name] = totals.get(name, 0) + count
    template = environment().get_template("waits.html.j2")
    return (
        Markup(template.render(rows=rows, totals=totals, all=max(1, sum(totals.values()))))
        if rows
        else Markup("")
    )
