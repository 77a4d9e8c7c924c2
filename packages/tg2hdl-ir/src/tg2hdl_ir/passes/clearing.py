"""Accumulators that start at zero: cleared after their last addition instead of multiplexed before their first."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    IRConst,
    IRCounter,
    IRItem,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
    is_const,
    operands,
)
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.leaves import leaf_paths, replace_leaves
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["clear_with_last"]


@ir_pass("clear-with-last", "accumulators are cleared after their last addition")
def clear_with_last(kernel: KernelIR, *, floats: bool = True) -> KernelIR:
    """Rewrite ``sum = where(first, 0, r) + x; r = sum`` to ``sum = r + x; r = where(last, 0, sum)``.

    The reset input of the register clears it without logic, and the adder reads the register directly.  Registers
    start at zero, and every run leaves them at zero.

    Parameters
    ----------
    kernel : KernelIR
        Flattened, registers forwarded.
    floats : bool
        Whether sums of floats are cleared too.
    """
    homes: dict[int, set[int]] = {}
    leaves = list(leaf_paths(kernel.loop_tree))
    for number, path in enumerate(leaves):
        for statement in path[-1].statements():
            if isinstance(statement, IRRegLoad | IRRegStore):
                homes.setdefault(statement.reg, set()).add(number)
    single = {
        r.idx
        for r in kernel.registers
        if r.size == 1 and len(homes.get(r.idx, ())) == 1 and (floats or not r.dtype.is_float)
    }
    folder = Folder()
    cleared = {id(path[-1]): _clear_leaf(path, single, folder) for path in leaves}
    return replace(kernel, loop_tree=replace_leaves(kernel.loop_tree, cleared))


def _clear_leaf(path: tuple[LoopIR, ...], registers: set[int], folder: Folder) -> LoopIR:
    leaf = path[-1]
    statements = tuple(leaf.statements())
    uses = _uses(statements)
    lasts: dict[int, IRValue] = {}
    rewriter = Rewriter(folder)
    for load in (s for s in statements if isinstance(s, IRRegLoad) and s.reg in registers):
        choices = uses.get(load, [])
        last = _last_of(choices, load, path, folder)
        if last is not None:
            lasts[load.reg] = last
            rebuilt = rewriter.value(load)
            rewriter.memo.update((choice, rebuilt) for choice in choices if isinstance(choice, IROp))
    if not lasts:
        return leaf
    items: list[IRItem] = []
    for statement in statements:
        built = rewriter.statement(statement)
        if isinstance(built, IRRegStore) and built.reg in lasts:
            last, dtype = lasts[built.reg], built.value.dtype
            value = folder.op("where", dtype, last, IRConst(dtype.bits_to_const(0), dtype), built.value)
            gate = None if built.gate is None else folder.op("or", DType.BOOL, built.gate, last)
            built = replace(built, value=value, gate=gate)
        items.append(built)
    return LoopIR.from_items(tuple(items), counter=leaf.counter, axis_type=leaf.axis_type)


def _uses(statements: tuple[IRStatement, ...]) -> dict[IRValue, list[IRValue | IRStatement]]:
    """The readers of each value."""
    found: dict[IRValue, list[IRValue | IRStatement]] = {}
    seen: set[int] = set()
    stack: list[IRValue | IRStatement] = list(statements)
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for source in operands(node):
            found.setdefault(source, []).append(node)
            stack.append(source)
    return found


def _last_of(
    choices: list[IRValue | IRStatement], load: IRRegLoad, path: tuple[LoopIR, ...], folder: Folder
) -> IRValue | None:
    """Gate of the last step, if every use selects zero in the first step of the same inner loops."""
    found = {_chosen_at(choice, load) for choice in choices}
    axes = found.pop() if len(found) == 1 else None
    if axes is None:
        return None
    last: list[IRValue] = []
    for loop in path[: len(path) - len(axes) - 1 : -1]:
        counter = loop.counter
        if counter is None or not isinstance(counter.bound, int) or counter.axis not in axes:
            return None
        last.append(folder.equals(counter, counter.bound - 1))
    return folder.all_of(*reversed(last))


def _chosen_at(choice: IRValue | IRStatement, load: IRRegLoad) -> frozenset[int] | None:
    if not isinstance(choice, IROp) or choice.op != "where":
        return None
    gate, initial, carried = choice.srcs
    return _first_axes(gate) if carried is load and _is_zero(initial) else None


def _first_axes(gate: IRValue) -> frozenset[int] | None:
    """Axes whose counters are zero exactly where the gate is true; None for any other gate."""
    if not isinstance(gate, IROp):
        return None
    if gate.op == "and" and gate.dtype.is_bool:
        parts = [_first_axes(source) for source in gate.srcs]
        known = [part for part in parts if part is not None]
        return frozenset().union(*known) if len(known) == len(parts) else None
    if gate.op == "eq" and isinstance(counter := gate.srcs[0], IRCounter) and is_const(gate.srcs[1], 0):
        return frozenset({counter.axis})
    return None


def _is_zero(value: IRValue) -> bool:
    if isinstance(value, IRConst) and value.dtype.is_float:
        return value.dtype.const_to_bits(value.value) == 0
    return is_const(value, 0)
