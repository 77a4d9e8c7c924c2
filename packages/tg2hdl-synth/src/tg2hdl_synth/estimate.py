"""Area and Fmax from the plan alone, before any synthesis."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tg2hdl_ir.plugins.descriptors import Area, TargetDef

__all__ = ["Estimate", "estimate_design"]

_BRAM_BITS = 2048
_MULTIPLY_MHZ = 141.0
_MEMORY_MHZ = 125.0
_DEEP_MHZ = 112.0


@dataclass(frozen=True)
class Estimate:
    """Expected cells and Fmax (MHz) on an ECP5 of speed grade 6."""

    comb: int
    ff: int
    dsp: int
    bram: int
    fmax: float

    def format(self) -> str:
        """One line."""
        return (
            f"estimate from the plan: {self.fmax:.0f} MHz, {self.comb} comb, {self.ff} ff, "
            f"{self.dsp} dsp, {self.bram} bram"
        )


def estimate_design(top: Any, target: TargetDef) -> Estimate | None:
    """Estimate of a TopModule or CompiledKernel; None for another component or another family."""
    plans = getattr(top, "plans", None) or ([top.plan] if hasattr(top, "plan") else None)
    if plans is None or target.family != "ecp5":
        return None
    areas = [_kernel(plan) for plan in plans]
    memories = [_memory(words, width) for words, width, _ in _memories(top, plans)]
    read = sum(width * latency for _, width, latency in _memories(top, plans))
    total = Area(
        sum(a.lut for a in (*areas, *memories)),
        sum(a.ff for a in areas) + read,
        sum(a.dsp for a in areas),
        sum(a.bram for a in memories),
    )
    fmax = min(_fmax(plan) for plan in plans)
    if any(words > 16384 for words, _, _ in _memories(top, plans)):
        fmax = min(fmax, _DEEP_MHZ * 0.85)
    elif any(words > 512 for words, _, _ in _memories(top, plans)):
        fmax = min(fmax, _DEEP_MHZ)
    return Estimate(total.lut, total.ff, total.dsp, total.bram, round(fmax, 1))


def _memories(top: Any, plans: Iterable[Any]) -> list[tuple[int, int, int]]:
    """Words, bits of a word, and registers behind the reads of each memory."""
    shared = getattr(top, "memories", None)
    latency = next(iter(plans)).read_latency - 1
    if shared is not None:
        return [(m.layout.words, m.word_width, latency) for m in shared]
    plan = top.plan
    return [(lay.words, lay.lanes * plan.storage[i].bit_width, latency) for i, lay in plan.layouts.items()]


def _memory(words: int, width: int) -> Area:
    if words * width <= _BRAM_BITS or words <= 32:
        return Area(lut=math.ceil(words / 16) * math.ceil(width / 4) * 4 if words > 1 else 0)
    if words <= 512:
        return Area(bram=math.ceil(width / 36))
    fitting = max((w for w in (1, 2, 4, 9, 18) if (18432 if w > 4 else 16384) // w >= words), default=1)
    banks = math.ceil(words / 16384)
    return Area(lut=width * (banks - 1), bram=math.ceil(width / fitting) * banks)


def _kernel(plan: Any) -> Area:
    lut = ff = dsp = 0
    last: dict[int, int] = {}
    for node in plan.nodes:
        for number in node.operands:
            last[number] = max(last.get(number, 0), node.issue)
    for node in plan.nodes:
        if node.kind == "op":
            cells, multipliers = _operation(plan, node)
            lut, dsp = lut + cells, dsp + multipliers
        elif node.kind == "unit":
            area = node.unit.area
            lut, ff, dsp = lut + area.lut, ff + area.ff, dsp + area.dsp
        elif node.kind == "address":
            lut, ff = lut + 3 * node.width, ff + node.width
        elif node.kind == "regwrite":
            ff += node.width
        if node.kind not in ("const", "variable"):
            ff += node.width * max(0, last.get(node.number, 0) - node.stage)
    counters = sum(len(leaf.path) for leaf in plan.leaves)
    return Area(lut + 30 * counters + 20, ff + 14 * counters + plan.depth, dsp)


def _operation(plan: Any, node: Any) -> tuple[int, int]:
    widths = [plan.nodes[n].width for n in node.operands]
    constant = any(plan.nodes[n].kind == "const" for n in node.operands)
    match node.op:
        case "mul" if constant:
            return 2 * node.width, 0
        case "mul" if min(widths) > 2:
            return 0, math.prod(math.ceil(w / 18) for w in widths)
        case "add" | "sub" | "neg" | "lt" | "eq" | "ne":
            return max(widths), 0
        case "min" | "max":
            return (1 if constant else 2) * max(widths), 0
        case "shl" | "shr" if not constant:
            return node.width * max(1, math.ceil(math.log2(max(2, node.width)))), 0
        case "cast" | "bitcast" | "shl" | "shr":
            return 0, 0
    return node.width, 0


def _fmax(plan: Any) -> float:
    period = 1000 / _MEMORY_MHZ
    for node in plan.nodes:
        if node.kind == "op" and node.op == "mul" and node.levels > 2:
            period = max(period, 1000 / _MULTIPLY_MHZ)
        elif node.kind == "op":
            period = max(period, 3.0 + 0.95 * node.level)
        elif node.kind == "unit" and node.unit.fmax:
            period = max(period, 1000 / node.unit.fmax)
    return 1000 / period
