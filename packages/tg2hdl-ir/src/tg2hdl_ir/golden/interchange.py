"""Loop interchange for interleaved kernels: iterations that take turns run at once.

`interleave` makes independent outputs the innermost loop of a reduction, and their accumulators elements of an array of
registers.  An array whose every access has the counter of its loop as index is one register for each iteration: that
loop may as well be the outermost of its nest, if its iterations access different elements of every buffer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from tg2hdl_ir.analysis.dependence import Dependence
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    IRItem,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
)
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["interchanged"]


def interchanged(kernel: KernelIR, bounds: Mapping[int, int]) -> tuple[KernelIR, Dependence]:
    """The kernel with turns outside, as far as that changes no result, and its dependences.

    Parameters
    ----------
    bounds : mapping of int to int
        Trip count of each axis.
    """
    turns = _turns(kernel, bounds)
    while turns:
        made, moved = _Interchange(kernel, turns).run()
        dependence = Dependence(made, bounds)
        wrong = [leaf for leaf, loop in moved.items() if not _keeps(dependence, loop, turns[leaf])]
        if not wrong:
            return made, dependence
        turns = {leaf: registers for leaf, registers in turns.items() if leaf not in wrong}
    return kernel, Dependence(kernel, bounds)


def _keeps(dependence: Dependence, moved: LoopIR, turns: Collection[int]) -> bool:
    """Whether a nest computes the same with a loop outermost whose iterations have registers of their own, `turns`."""
    leaf = moved
    while leaf.loops:
        (leaf,) = leaf.loops
    step = dependence.use(leaf)
    others = {e for e in step.written if e[0] not in turns}
    fresh = dependence.use(moved).fresh
    return others <= step.fresh and all((reg, 0) in fresh for reg in turns) and dependence.separate(moved)


def _turns(kernel: KernelIR, bounds: Mapping[int, int]) -> dict[LoopIR, frozenset[int]]:
    """Innermost loops of nests, and the arrays of registers with an element for each of their iterations."""
    sizes = {r.idx: r.size for r in kernel.registers}
    homes: dict[int, set[LoopIR | None]] = {}
    for loop in kernel.loop_tree.walk():
        for item in loop.items:
            if isinstance(item, IRRegLoad | IRRegStore):
                own = loop.counter is not None and item.index is loop.counter
                homes.setdefault(item.reg, set()).add(loop if own else None)
    found: dict[LoopIR, set[int]] = {}
    for reg, loops in homes.items():
        home = next(iter(loops))
        if len(loops) == 1 and home is not None and home.counter is not None:
            if not home.loops and bounds[home.counter.axis] <= sizes[reg]:
                found.setdefault(home, set()).add(reg)
    return {loop: frozenset(regs) for loop, regs in found.items()}


class _Unfolded(Folder):
    """Makes ops as they are."""

    def op(self, op: str, dtype: DType, *srcs: IRValue) -> IRValue:
        """The op."""
        return IROp(op, dtype, srcs)

    def all_of(self, *gates: IRValue | None) -> IRValue | None:
        """The only gate."""
        (gate,) = gates
        return gate


class _Interchange:
    def __init__(self, kernel: KernelIR, turns: Mapping[LoopIR, Collection[int]]) -> None:
        self.kernel = kernel
        self.turns = turns
        self.registers = {reg for regs in turns.values() for reg in regs}
        self.rewriter = Rewriter(_Unfolded(), change=self._scalar)
        self.moved: dict[LoopIR, LoopIR] = {}

    def run(self) -> tuple[KernelIR, dict[LoopIR, LoopIR]]:
        """The kernel, and the loops that took the place of those that moved."""
        root = LoopIR.from_items(self._items(self.kernel.loop_tree))
        registers = tuple(replace(r, size=1) if r.idx in self.registers else r for r in self.kernel.registers)
        return replace(self.kernel, loop_tree=root, registers=registers), self.moved

    def _scalar(self, statement: IRStatement, rebuilt: IRStatement) -> IRStatement:
        if isinstance(rebuilt, IRRegLoad | IRRegStore) and rebuilt.reg in self.registers:
            return replace(rebuilt, index=None)
        return rebuilt

    def _items(self, loop: LoopIR) -> tuple[IRItem, ...]:
        return tuple(
            self._nest(item) if isinstance(item, LoopIR) else self.rewriter.changed(item)
            for item in loop.items
        )

    def _nest(self, loop: LoopIR) -> LoopIR:
        nest = [loop]
        while len(nest[-1].items) == 1 and isinstance(nest[-1].items[0], LoopIR):
            nest.append(nest[-1].items[0])
        items, leaf = self._items(nest[-1]), nest[-1]
        if leaf in self.turns:
            nest = [leaf, *nest[:-1]]
        for level in reversed(nest):
            made = LoopIR.from_items(items, counter=level.counter, axis_type=level.axis_type)
            items = (made,)
        if leaf in self.turns:
            self.moved[leaf] = made
        return made
