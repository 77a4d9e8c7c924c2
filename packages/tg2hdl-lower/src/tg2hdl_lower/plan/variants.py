"""Plans of one shape, which run on one core: they differ only in loop bounds, addresses, constants and widths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from tg2hdl_ir import LoopIR
from tg2hdl_lower.plan.hardware_plan import HardwarePlan
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.operations import Op
from tg2hdl_lower.plan.registers import AccumulatorStorage
from tg2hdl_lower.plan.values import Address, Constant, Counter

__all__ = ["have_one_shape", "merged_plan"]

_TAKES_ANY = frozenset({"add", "sub", "min", "max", "lt", "eq", "ne", "and", "or", "xor", "where"})
"""Operations that are as small with a register's value as with a constant."""


def have_one_shape(a: HardwarePlan, b: HardwarePlan) -> bool:
    """Whether both compute the same in the same cycles of a step, and one core can do either.

    Parameters
    ----------
    a, b : HardwarePlan
        Plans with run-time variables have no other of their shape.
    """
    if (
        (a.ii, a.depth, len(a.leaves)) != (b.ii, b.depth, len(b.leaves))
        or a.kernel.variables
        or b.kernel.variables
    ):
        return False
    return _outline(a) == _outline(b)


def merged_plan(plans: Sequence[HardwarePlan]) -> HardwarePlan:
    """The plan of a core for plans of one shape: wide enough for each, with these as its variants."""
    first, *others = plans
    if not others:
        return first
    nodes = {n.number: _widened([plan.nodes[n.number] for plan in plans]) for n in first.live()}
    layouts = {
        idx: max((plan.layouts[idx] for plan in plans), key=lambda layout: layout.words)
        for idx in first.layouts
    }
    return replace(
        first,
        nodes={**first.nodes, **nodes},
        ports=tuple(replace(port, layout=layouts[port.buffer]) for port in first.ports),
        layouts=layouts,
        accumulators={
            idx: _wide_accumulator([plan.accumulators[idx] for plan in plans]) for idx in first.accumulators
        },
        variants=tuple(plans),
    )


def _widened(nodes: Sequence[Node]) -> Node:
    lows, highs = zip(*(node.interval for node in nodes), strict=True)
    return replace(nodes[0], interval=(min(lows), max(highs)))


def _wide_accumulator(found: Sequence[AccumulatorStorage]) -> AccumulatorStorage:
    signed = any(each.signed for each in found)
    return replace(
        found[0], width=max(each.width + (signed and not each.signed) for each in found), signed=signed
    )


def _outline(plan: HardwarePlan) -> list[Any]:
    """All of a plan except for the parts that may differ between the variants of a core."""
    fixed = {
        number
        for node in plan.live()
        if not (isinstance(node, Op) and node.op in _TAKES_ANY)
        for number in node.operands
    }
    buffers = [(b.idx, b.dtype, b.is_output, plan.storage[b.idx]) for b in plan.kernel.buffers]
    return [
        [_node_outline(node, plan, keeps_value=node.number in fixed) for node in plan.live()],
        [(leaf.number, leaf.nodes) for leaf in plan.leaves],
        _loops(plan.kernel.loop_tree),
        [(*buffer, plan.layouts[buffer[0]].lanes, plan.latencies.get(buffer[0])) for buffer in buffers],
        [(port.buffer, port.number, port.reads, port.dtype) for port in plan.ports],
        {idx: replace(each, width=0, signed=False) for idx, each in plan.accumulators.items()},
        [plan.products, plan.shared_units, plan.delay_lines, plan.run_constant],
        [plan.port_registers, plan.control_registers, plan.read_latency, plan.family],
    ]


def _node_outline(node: Node, plan: HardwarePlan, *, keeps_value: bool) -> list[Any]:
    found: dict[str, Any] = {f.name: getattr(node, f.name) for f in fields(node) if f.name != "interval"}
    if isinstance(node, Counter | Address):
        del found["form"]
    if isinstance(node, Address):
        found["digits"] = [digit.split for digit in node.digits]
    if isinstance(node, Constant) and not keeps_value:
        del found["value"]
    return [type(node), plan.placement(node.number), found]


def _loops(loop: LoopIR) -> list[Any]:
    """Axes of a loop and those in it; a run-time bound is like no other one."""
    bound = loop.bound == 1 if isinstance(loop.bound, int) else loop.bound
    axis = None if loop.counter is None else loop.counter.axis
    return [axis, bound, [_loops(inner) for inner in loop.loops]]
