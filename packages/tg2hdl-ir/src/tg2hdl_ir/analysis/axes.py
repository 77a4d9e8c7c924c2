"""Independent loops: their iterations neither carry a register nor access each other's elements."""

from __future__ import annotations

from dataclasses import dataclass

from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis
from tg2hdl_ir.analysis.ranges import RangeAnalysis
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRCounter,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
    loads_used_by,
    operands,
    values_below,
)

__all__ = ["AxisInfo", "analyze_axes", "axes_of", "is_associative", "is_injective", "keeps_order"]

_ASSOCIATIVE = ("add", "min", "max", "and", "or", "xor")
_EXTREMA = ("min", "max")


@dataclass(frozen=True)
class AxisInfo:
    """Facts about the loops of a kernel, by axis number.

    Parameters
    ----------
    independent : frozenset of int
        Axes whose iterations may run in any order or at once.
    private : mapping of int to frozenset of int
        For each axis the registers that every iteration initializes for itself.
    reducible : frozenset of int
        Axes whose iterations only add to integer accumulators, or to float ones where these may be regrouped.
    scanned : frozenset of int
        Axes of innermost loops whose lanes keep their order: they do the same and store the accumulators in between,
        or their accumulators are extrema of floats.
    floats : frozenset of int
        Axes that carry a float register.
    """

    independent: frozenset[int]
    private: dict[int, frozenset[int]]
    reducible: frozenset[int]
    floats: frozenset[int]
    scanned: frozenset[int] = frozenset()


def is_injective(form: Affine, ranges: RangeAnalysis) -> bool:
    """Whether an affine form takes a different value for each combination of its counters.

    Parameters
    ----------
    form : Affine
    ranges : RangeAnalysis
        Of the kernel of the form.
    """
    reach = 0
    for symbol, coefficient in sorted(form.terms, key=lambda t: abs(t[1])):
        if not isinstance(symbol, IRCounter):
            continue
        if abs(coefficient) <= reach:
            return False
        reach += abs(coefficient) * ranges.of(symbol)[1]
    return True


def axes_of(value: IRValue) -> frozenset[int]:
    """Axes of all counters that a value depends on."""
    return frozenset(node.axis for node in values_below((value,)) if isinstance(node, IRCounter))


def analyze_axes(kernel: KernelIR, *, regroup_floats: bool = False) -> AxisInfo:
    """Analyze a canonical (not yet flattened) kernel.

    Parameters
    ----------
    kernel : KernelIR
        Canonical.
    regroup_floats : bool
        Whether the terms of a float sum may be added in another order, which changes its rounding.
    """
    placed = _place(kernel.loop_tree, ())
    axes = {loop.counter.axis for loop in kernel.loop_tree.walk() if loop.counter is not None}
    private = {axis: _private(axis, placed) for axis in axes}
    touched = {
        axis: {s.reg for s, path in placed if axis in path and isinstance(s, IRRegLoad | IRRegStore)}
        for axis in axes
    }
    memory = _independent_in_memory(axes, placed)
    carried = {axis: touched[axis] - private[axis] for axis in axes}
    plain = _accumulators(placed, regroup_floats)
    floats = {r.idx for r in kernel.registers if r.dtype.is_float}
    adding = {a for a in axes if carried[a] and carried[a] <= plain.keys() and a in memory}
    extrema = {r for r in floats if r in plain and plain[r] in _EXTREMA}
    seen = {a for a in adding if any(a in path and _stores(s, carried[a]) for s, path in placed)}
    seen |= {a for a in adding if carried[a] & extrema}
    leaves = {loop.counter.axis for loop in kernel.loop_tree.walk() if loop.counter and not loop.loops}
    # Each row is a run: its loop stays as it is.
    rows = {loop.counter.axis for loop in kernel.loop_tree.loops if loop.counter and loop.axis_type == "rows"}
    return AxisInfo(
        frozenset(a for a in axes if not carried[a] and a in memory and a not in rows),
        private,
        frozenset(adding - seen - rows),
        frozenset(a for a in axes if carried[a] & floats),
        frozenset(seen & leaves),
    )


def _stores(statement: IRStatement, registers: set[int]) -> bool:
    """Whether a buffer store depends on one of some registers."""
    loads = loads_used_by(operands(statement)) if isinstance(statement, IRBufStore) else []
    return any(isinstance(load, IRRegLoad) and load.reg in registers for load in loads)


def _place(loop: LoopIR, path: tuple[int, ...]) -> list[tuple[IRStatement, tuple[int, ...]]]:
    if loop.counter is not None:
        path = (*path, loop.counter.axis)
    placed: list[tuple[IRStatement, tuple[int, ...]]] = []
    for item in loop.items:
        placed.extend(_place(item, path) if isinstance(item, LoopIR) else [(item, path)])
    return placed


def _private(axis: int, placed: list[tuple[IRStatement, tuple[int, ...]]]) -> frozenset[int]:
    first: dict[int, IRStatement] = {}
    for statement, path in placed:
        if axis in path and isinstance(statement, IRRegLoad | IRRegStore):
            first.setdefault(statement.reg, statement)
    outside = {s.reg for s, path in placed if axis not in path and isinstance(s, IRRegLoad | IRRegStore)}
    return frozenset(
        reg
        for reg, s in first.items()
        if isinstance(s, IRRegStore) and s.gate is None and s.index is None and reg not in outside
    )


def _independent_in_memory(axes: set[int], placed: list[tuple[IRStatement, tuple[int, ...]]]) -> set[int]:
    ranges = RangeAnalysis()
    analysis = AffineAnalysis(ranges)
    stores = [(s, path) for s, path in placed if isinstance(s, IRBufStore)]
    result = set(axes)
    for store, path in stores:
        form = analysis.of(store.addr)
        same_buffer = [
            s for s, _ in placed if isinstance(s, IRBufLoad | IRBufStore) and s.buf_idx == store.buf_idx
        ]
        shared = any(analysis.of(s.addr) != form or form is None for s in same_buffer)
        for axis in path:
            ok = form is not None and not shared and is_injective(form, ranges)
            uses_axis = form is not None and any(
                isinstance(s, IRCounter) and s.axis == axis for s, _ in form.terms
            )
            # A store outside the axis' counter is repeated: only the last one counts, so the order matters.
            if not (ok and uses_axis):
                result.discard(axis)
    return result | {a for a in axes if not any(a in path for _, path in stores)}


def _accumulators(placed: list[tuple[IRStatement, tuple[int, ...]]], regroup_floats: bool) -> dict[int, str]:
    """Registers whose every update is ``reg = op(reg, x)`` with one op and x free of registers, and the op."""
    ops: dict[int, set[str | None]] = {}
    for statement, _ in placed:
        if isinstance(statement, IRRegStore):
            ops.setdefault(statement.reg, set()).add(_update_op(statement, regroup_floats))
    updated = {reg: found - {"init"} for reg, found in ops.items()}
    return {reg: op for reg, found in updated.items() if len(found) == 1 for op in found if op is not None}


def _update_op(store: IRRegStore, regroup_floats: bool) -> str | None:
    value = store.value
    if store.index is not None or store.gate is not None:
        return None
    if not _reads_register(value):
        return "init"
    if not isinstance(value, IROp) or not is_associative(value.op, value.dtype, regroup_floats):
        return None
    own = [s for s in value.srcs if isinstance(s, IRRegLoad) and s.reg == store.reg]
    others = [s for s in value.srcs if s not in own]
    if len(own) != 1 or any(_reads_register(s) for s in others):
        return None
    # In the other order a NaN would take the place of the extreme so far.
    return None if keeps_order(value.op, value.dtype) and value.srcs[0] is not own[0] else value.op


def is_associative(op: str, dtype: DType, regroup_floats: bool) -> bool:
    """Whether the results of a chain of an op do not depend on the grouping.

    Parameters
    ----------
    op : str
    dtype : DType
        Extrema of floats need an infinity, which no number exceeds.
    regroup_floats : bool
        Whether additions of floats may be rounded in another order.
    """
    if not dtype.is_float:
        return op in _ASSOCIATIVE
    return not dtype.finite if op in _EXTREMA else op == "add" and regroup_floats


def keeps_order(op: str, dtype: DType) -> bool:
    """Whether the operands of a chain stay in their order: signs of zeros and NaN depend on it.

    Parameters
    ----------
    op : str
    dtype : DType
    """
    return dtype.is_float and op in _EXTREMA


def _reads_register(value: IRValue) -> bool:
    return any(isinstance(load, IRRegLoad) for load in loads_used_by((value,)))
