"""LUTs of a design, estimated from its plans: in milliseconds, for decisions that compare designs of any family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import ceil, log2
from types import MappingProxyType

from tg2hdl_lower import HardwarePlan
from tg2hdl_lower.plan.accesses import PickedLane
from tg2hdl_lower.plan.delay_line import DelayLine
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.operations import (
    ConstantProduct,
    DesignProduct,
    Op,
    SharedUnitOp,
    UnitOp,
    UnitProduct,
    WideProduct,
)
from tg2hdl_lower.plan.registers import AccumulatorLine, AccumulatorMemory
from tg2hdl_lower.plan.resources import SharedUnit, pools
from tg2hdl_lower.plan.values import Address, Constant, LaneIndex
from tg2hdl_top.design import Design

__all__ = ["LUTS", "estimated_luts", "planned_words"]

LUTS: Mapping[str, float] = MappingProxyType(
    {
        "add": 1.3,
        "compare": 0.7,
        "equal": 0.3,
        "extreme": 1.0,
        "logic": 0.4,
        "mux": 0.4,
        "gating": 0.5,
        "pick": 0.4,
        "shift": 0.3,
        "control": 2.0,
        "memory": 2.0,
        "unit": 1.0,
        "array": 1.0,
    }
)
"""LUTs of four inputs for each bit by kind of `planned_words`; of a unit for each one that its descriptor declares.

Fitted to benchmarks/table: benchmarks/synth/fit_plans.py prints the errors.
"""

_KINDS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("add", "sub", "neg"), "add"),
        "lt": "compare",
        **dict.fromkeys(("eq", "ne"), "equal"),
        **dict.fromkeys(("and", "or", "xor"), "logic"),
    }
)
_FACTOR = 18
"""Bits of an operand of a multiplier."""
_ROW = 16
"""Words of a LUT RAM."""


def estimated_luts(design: Design) -> int:
    """LUTs of all kernels, of the units and multipliers that they share, and of memories in LUTs."""
    return round(sum(LUTS[kind] * bits for kind, bits in planned_words(design).items()))


def planned_words(design: Design) -> Counter[str]:
    """Bits of results by kind, as in `LUTS`, of all cores.

    ``extreme`` are minima and maxima, ``gating`` has a constant or another user of a multiplier beside it, ``pick`` is
    a lane of a word, ``control`` counters of loops, ``memory`` rows of LUT RAM inside kernels, ``array`` the LUTs of
    memories, and ``unit`` those that descriptors of units declare.
    """
    words: Counter[str] = Counter()
    plans = design.core_plans
    shared = Counter(_port(node, plan) for plan in plans for node in plan.all(DesignProduct))
    for plan in plans:
        words += _of_kernel(plan, shared)
    for together, slots in (
        (design.options.share_multipliers, [plan.products for plan in plans]),
        (design.options.share_units, [plan.shared_units for plan in plans]),
    ):
        for group in [slots] if together else [[each] for each in slots]:
            found = [pool.resource for pool in pools(group)]
            words["unit"] += sum(r.unit.area.lut for r in found if isinstance(r, SharedUnit))
    words["array"] += sum(memory.area.lut for memory in design.built_memories)
    return words


def _of_kernel(plan: HardwarePlan, shared: Counter[tuple[str, int]]) -> Counter[str]:
    words: Counter[str] = Counter()
    for leaf in plan.leaves:
        words["control"] += sum(_bits(loop.bound) + 4 for loop in leaf.path if loop.counter is not None)
    for node in plan.live():
        kind, bits = _of_node(node, plan)
        words[kind] += bits
        if isinstance(node, DesignProduct) and shared[_port(node, plan)] > 1:
            words["gating"] += sum(min(plan.nodes[n].width, _FACTOR) for n in node.operands)
    for accumulator in plan.accumulators.values():
        if isinstance(accumulator, AccumulatorMemory):
            words["memory"] += accumulator.width * ceil(accumulator.size / _ROW)
        elif isinstance(accumulator, AccumulatorLine):
            words["memory"] += _of_line(accumulator.line, accumulator.width)
    words["memory"] += sum(_of_line(line, plan.nodes[n].width) for n, line in plan.delay_lines.items())
    return words


def _of_node(node: Node, plan: HardwarePlan) -> tuple[str, int]:
    """Kind and bits of a node."""
    widths = [plan.nodes[n].width for n in node.operands]
    constants = [n for n in map(plan.nodes.__getitem__, node.operands) if isinstance(n, Constant)]
    match node:
        case Address(digits=digits):
            return "add", node.width * (1 + 2 * len(digits))
        case LaneIndex(weights=weights):
            return "add", node.width * len(weights)
        case PickedLane(choices=choices):
            return "pick", node.width * (len(choices) - 1)
        case WideProduct(limbs=(a, b)):
            return "add", (a * b - 1) * node.width // 2
        case ConstantProduct():
            return "add", node.width * max(0, node.constant.bit_count() - 1)
        case UnitProduct() | SharedUnitOp():
            return "unit", 0
        case UnitOp():
            return "unit", node.unit.area.lut
        case Op(op="mul") if constants:
            return "add", node.width * max(0, abs(constants[0].value).bit_count() - 1)
        case Op(op="shl" | "shr"):
            return "shift", 0 if constants else node.width * ceil(log2(max(2, node.width)))
        case Op(op="min" | "max"):
            return "extreme", max(widths)
        case Op(op="where"):
            return ("gating" if constants else "mux"), node.width
        case Op(op=op) if op in _KINDS:
            kind = _KINDS[op]
            return kind, node.width if kind in ("add", "logic") else max(widths)
    return "logic", 0


def _port(node: DesignProduct, plan: HardwarePlan) -> tuple[str, int]:
    return node.key, plan.placement(node.number).port


def _of_line(line: DelayLine, width: int) -> int:
    return width * ceil(line.cycles / _ROW) if line.storage == "LUT RAM" else 0


def _bits(bound: object) -> int:
    return bound.bit_length() if isinstance(bound, int) else 16
