"""Comparison with an earlier report."""

from __future__ import annotations

from typing import Any

from tg2hdl.html_templates import environment
from tg2hdl.report.context import ReportContext

__all__ = ["render"]


def render(context: ReportContext) -> str:
    """Figures of both and their change; nothing without an earlier report."""
    if context.earlier is None:
        return ""
    now, before = context.facts, context.earlier
    rows = [(name, of(before), of(now)) for name, of in _FIGURES]
    kernels = _kernels(before, now)
    options = [
        (name, before["options"].get(name), value)
        for name, value in now["options"].items()
        if before["options"].get(name) != value
    ]
    template = environment().get_template("comparison.html.j2")
    return template.render(
        before=before["name"],
        rows=[r for r in rows if r[1] is not None and r[2] is not None],
        kernels=kernels,
        most=max((n for _, *both in kernels for n in both if n), default=1),
        options=options,
    )


def _synthesis(key: str) -> Any:
    return lambda facts: (facts.get("synthesis") or {}).get(key)


_FIGURES = (
    ("latency (cycles)", lambda facts: facts["cycles"]),
    ("interval (cycles)", lambda facts: facts["interval"]),
    ("multipliers", lambda facts: facts["multipliers"]),
    ("MACs", lambda facts: facts["macs"]),
    ("kernels", lambda facts: len(facts["kernels"])),
    ("memory (bits)", lambda facts: sum(m["bits"] for m in facts["memories"])),
    ("Fmax (MHz)", _synthesis("fmax_mhz")),
    ("LUTs and carries", _synthesis("comb")),
    ("flip-flops", _synthesis("ff")),
    ("multiplier blocks", _synthesis("dsp")),
    ("block RAMs", _synthesis("bram")),
)


def _kernels(before: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, int | None, int | None]]:
    """Cycles of each kernel in both, by layer and name, in the order of the present report."""

    def by_label(facts: dict[str, Any]) -> dict[str, int]:
        found: dict[str, int] = {}
        for k in facts["kernels"]:
            label = k.get("label") or " ".join(filter(None, (k["layer"], k["name"])))
            found[label] = found.get(label, 0) + k["cycles"]
        return found

    old, new = by_label(before), by_label(now)
    return [(name, old.get(name), new.get(name)) for name in dict.fromkeys([*new, *old])]
