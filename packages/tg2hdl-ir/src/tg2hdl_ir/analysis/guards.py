"""Registers that a flattened kernel initializes in the first step of some loops only.

``SET r = init if i1 == 0`` and ``where(i1 == 0, init, GET r)`` hide the value of an earlier iteration of an outer loop,
as an initialization before loop ``i1`` would.
"""

from __future__ import annotations

from tg2hdl_ir.nodes import IRConst, IRCounter, IROp, IRRegLoad, IRStatement, IRValue, KernelIR, operands

__all__ = ["first_step", "masked_loads"]


def first_step(condition: IRValue | None) -> frozenset[int]:
    """Axes of a condition ``i == 0 and j == 0 and ...``; empty for any other."""
    if not isinstance(condition, IROp):
        return frozenset()
    if condition.op == "and":
        parts = [first_step(s) for s in condition.srcs]
        return frozenset().union(*parts) if all(parts) else frozenset()
    if condition.op == "eq":
        counters = [s for s in condition.srcs if isinstance(s, IRCounter)]
        zeros = [s for s in condition.srcs if isinstance(s, IRConst) and s.value == 0]
        if len(counters) == 1 and len(zeros) == 1:
            return frozenset({counters[0].axis})
    return frozenset()


def masked_loads(kernel: KernelIR) -> dict[IRRegLoad, frozenset[int]]:
    """Register reads whose value does not matter in the first step of the given axes."""
    masks: dict[IRRegLoad, frozenset[int]] = {}
    spoiled: set[IRRegLoad] = set()
    seen: set[IRValue | IRStatement] = set()
    stack: list[IRValue | IRStatement] = list(kernel.loop_tree.statements())
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        stack.extend(operands(node))
        for position, value in enumerate(operands(node)):
            if not isinstance(value, IRRegLoad):
                continue
            selects = isinstance(node, IROp) and node.op == "where" and position == 2
            axes = first_step(operands(node)[0]) if selects else frozenset()
            if not axes or masks.setdefault(value, axes) != axes:
                spoiled.add(value)
    return {load: axes for load, axes in masks.items() if load not in spoiled}
