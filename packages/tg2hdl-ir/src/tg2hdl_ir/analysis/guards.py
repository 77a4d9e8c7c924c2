"""Registers that a flattened kernel initializes in the first step of some loops only, or clears in their last one.

``SET r = init if i1 == 0`` and ``where(i1 == 0, init, GET r)`` hide the value of an earlier iteration of an outer loop,
as an initialization before loop ``i1`` would.  ``SET r = where(i1 == last, 0, x)`` leaves zero for the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tg2hdl_ir.nodes import (
    IRConst,
    IRCounter,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
    operands,
)

__all__ = ["cleared_registers", "first_step", "masked_loads"]


def first_step(condition: IRValue | None) -> frozenset[int]:
    """Axes of a condition ``i == 0 and j == 0 and ...``; empty for any other."""
    return _step(condition, lambda counter: 0)


def _step(condition: IRValue | None, number: Callable[[IRCounter], int]) -> frozenset[int]:
    """Axes whose counters have a number each where a condition is true; empty for any other condition."""
    if not isinstance(condition, IROp):
        return frozenset()
    if condition.op == "and":
        parts = [_step(s, number) for s in condition.srcs]
        return frozenset().union(*parts) if all(parts) else frozenset()
    if condition.op == "eq":
        counters = [s for s in condition.srcs if isinstance(s, IRCounter)]
        constants = [s for s in condition.srcs if isinstance(s, IRConst)]
        if len(counters) == 1 and len(constants) == 1 and constants[0].value == number(counters[0]):
            return frozenset({counters[0].axis})
    return frozenset()


def cleared_registers(kernel: KernelIR, bounds: Mapping[int, int]) -> dict[int, set[int]]:
    """Registers that are zero before and after all iterations of a loop, by the axis of that loop.

    Their only store ``SET r = where(last, 0, x)`` clears them in the last step of that loop and of the loops in it.

    Parameters
    ----------
    bounds : mapping of int to int
        Trip count of each axis.
    """
    stores: dict[int, list[tuple[IRRegStore, tuple[int, ...]]]] = {}

    def walk(loop: LoopIR, path: tuple[int, ...]) -> None:
        if loop.counter is not None and bounds[loop.counter.axis] != 1:
            path = (*path, loop.counter.axis)
        for item in loop.items:
            if isinstance(item, LoopIR):
                walk(item, path)
            elif isinstance(item, IRRegStore):
                stores.setdefault(item.reg, []).append((item, path))

    walk(kernel.loop_tree, ())
    single = {r.idx for r in kernel.registers if r.size == 1}
    found: dict[int, set[int]] = {}
    for reg, [(store, path), *others] in stores.items():
        axes = _cleared_in(store, bounds)
        inner = path[len(path) - len(axes) :]
        if reg in single and axes and not others and axes == set(inner):
            found.setdefault(inner[0], set()).add(reg)
    return found


def _cleared_in(store: IRRegStore, bounds: Mapping[int, int]) -> frozenset[int]:
    """Axes in whose last step a store surely writes zero; empty where it does not."""

    def last_step(condition: IRValue | None) -> frozenset[int]:
        return _step(condition, lambda counter: bounds[counter.axis] - 1)

    value, gate = store.value, store.gate
    if not isinstance(value, IROp) or value.op != "where":
        return frozenset()
    condition, zero, _ = value.srcs
    axes = last_step(condition)
    if not isinstance(zero, IRConst) or zero.dtype.const_to_bits(zero.value) != 0:
        return frozenset()
    opens = gate is None or (
        isinstance(gate, IROp) and gate.op == "or" and any(last_step(s) == axes for s in gate.srcs)
    )
    return axes if opens else frozenset()


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
