"""Flattening: every loop holds either only loops or only statements.

The statements of an outer level move into the first or the last step of the innermost loop next to them, under a gate
that compares the inner counters.  An imperfect nest then runs as one stream of steps without extra cycles.
"""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    IRBufStore,
    IRCounter,
    IRItem,
    IRRegStore,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
    const_int,
    loads_used_by,
    operands,
)
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.hold import hold_overwritten_loads
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.leaves import replace_leaves
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["flatten"]


@ir_pass(
    "flatten",
    "loops hold either statements or loops, so that the kernel is one sequence of steps",
    term="loop flattening",
)
def flatten(kernel: KernelIR) -> KernelIR:
    """Move all statements into leaf loops; each leaf gets its own copy of the loads that it uses.

    Returns
    -------
    KernelIR
        Same results in the same order.  A kernel without loops keeps its statements at the root.
    """
    kernel = hold_overwritten_loads(kernel)
    folder = Folder()
    root = _level(kernel.loop_tree, folder)
    return replace(kernel, loop_tree=_localize(root, folder))


def _level(loop: LoopIR, folder: Folder) -> LoopIR:
    if not loop.loops:
        return loop
    loops: list[LoopIR] = []
    pending: list[IRStatement] = []
    for item in loop.items:
        if isinstance(item, LoopIR):
            loops.append(_inject(_level(item, folder), pending, (), folder, first=True))
            pending = []
        else:
            pending.append(item)
    loops[-1] = _inject(loops[-1], pending, (), folder, first=False)
    return LoopIR.from_items(tuple(loops), counter=loop.counter, axis_type=loop.axis_type)


def _inject(
    loop: LoopIR, statements: list[IRStatement], gates: tuple[IRValue, ...], folder: Folder, *, first: bool
) -> LoopIR:
    if not statements:
        return loop
    assert loop.counter is not None, "only the root has no counter"
    gates = (*gates, _edge(loop.counter, folder, first=first))
    items: tuple[IRItem, ...]
    if loop.loops:
        inner = list(loop.loops)
        at = 0 if first else -1
        inner[at] = _inject(inner[at], statements, gates, folder, first=first)
        items = tuple(inner)
    else:
        gate = folder.all_of(*gates)
        gated = tuple(_gated(s, gate, folder) for s in statements)
        items = gated + loop.items if first else loop.items + gated
    return LoopIR.from_items(items, counter=loop.counter, axis_type=loop.axis_type)


def _edge(counter: IRCounter, folder: Folder, *, first: bool) -> IRValue:
    if first:
        return folder.equals(counter, 0)
    if isinstance(counter.bound, int):
        return folder.equals(counter, counter.bound - 1)
    following = folder.op("add", counter.dtype, counter, const_int(1, counter.dtype))
    return folder.op("eq", DType.BOOL, following, counter.bound)


def _gated(statement: IRStatement, gate: IRValue | None, folder: Folder) -> IRStatement:
    if isinstance(statement, IRBufStore | IRRegStore):
        return replace(statement, gate=folder.all_of(gate, statement.gate))
    return statement


def _localize(root: LoopIR, folder: Folder) -> LoopIR:
    leaves = [leaf for leaf in root.walk() if not leaf.loops]
    home = {s: n for n, leaf in enumerate(leaves) for s in leaf.statements()}
    order = {s: n for n, s in enumerate(home)}
    rebuilt: dict[int, LoopIR] = {}
    for number, leaf in enumerate(leaves):
        values = tuple(v for s in leaf.statements() for v in operands(s))
        foreign = [s for s in loads_used_by(values) if home[s] != number]
        rewriter = Rewriter(folder)
        copies = tuple(rewriter.statement(s) for s in sorted(foreign, key=order.__getitem__))
        items = tuple(rewriter.statement(s) for s in leaf.statements())
        rebuilt[id(leaf)] = LoopIR.from_items(copies + items, counter=leaf.counter, axis_type=leaf.axis_type)
    return replace_leaves(root, rebuilt)
