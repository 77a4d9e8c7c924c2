"""Loop interchange for interleaved kernels: iterations that take turns run at once.

`interleave` makes independent outputs the innermost loop of a reduction, and their accumulators elements of an array of
registers.  An array whose every access has as its index a number of the iteration of the innermost loops is one
register for each: these loops may as well be the outermost of their nest, if their iterations access different elements
of every buffer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis
from tg2hdl_ir.analysis.axes import is_injective
from tg2hdl_ir.analysis.dependence import Dependence
from tg2hdl_ir.analysis.ranges import RangeAnalysis
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    IRCounter,
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


@dataclass(frozen=True)
class LoopTurns:
    """Loops whose iterations take turns.

    Parameters
    ----------
    count : int
        How many loops, the innermost ones of a nest.
    registers : frozenset of int
        Arrays of registers with an element for each of their iterations.
    """

    count: int
    registers: frozenset[int]


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
        wrong = [leaf for leaf, nest in moved.items() if not _keeps(dependence, nest, turns[leaf])]
        if not wrong:
            return made, dependence
        turns = {leaf: found for leaf, found in turns.items() if leaf not in wrong}
    return kernel, Dependence(kernel, bounds)


def _keeps(dependence: Dependence, nest: Sequence[LoopIR], turns: LoopTurns) -> bool:
    """Whether a nest computes the same with its first loops outside, whose iterations have registers of their own."""
    step = dependence.use(nest[-1])
    others = {e for e in step.written if e[0] not in turns.registers}
    fresh = dependence.use(nest[turns.count - 1]).fresh
    return (
        others <= step.fresh
        and all((reg, 0) in fresh for reg in turns.registers)
        and all(map(dependence.separate, nest[: turns.count]))
    )


def _turns(kernel: KernelIR, bounds: Mapping[int, int]) -> dict[LoopIR, LoopTurns]:
    """Turns by the innermost loop of their nest."""
    ranges = RangeAnalysis()
    affine = AffineAnalysis(ranges)
    sizes = {r.idx: r.size for r in kernel.registers}
    uses: dict[int, set[tuple[LoopIR, Affine | None]]] = {}
    nests: dict[LoopIR, tuple[LoopIR, ...]] = {}

    def walk(loop: LoopIR, nest: tuple[LoopIR, ...]) -> None:
        nest = (*nest, loop) if loop.counter is not None else ()
        nests[loop] = nest
        for item in loop.items:
            if isinstance(item, LoopIR):
                walk(item, nest if len(loop.items) == 1 else ())
            elif isinstance(item, IRRegLoad | IRRegStore):
                form = None if item.index is None else affine.of(item.index)
                uses.setdefault(item.reg, set()).add((loop, form))

    walk(kernel.loop_tree, ())
    found: dict[LoopIR, list[tuple[int, int]]] = {}
    for reg, places in uses.items():
        loop, form = next(iter(places))
        if (
            len(places) > 1
            or form is None
            or form.is_constant
            or loop.loops
            or not is_injective(form, ranges)
        ):
            continue
        ends = [(c, c * (bounds[s.axis] - 1)) for s, c in form.terms if isinstance(s, IRCounter)]
        low, high = (form.const + sum(limit(0, end) for _, end in ends) for limit in (min, max))
        inner = {one.counter for one in nests[loop][-len(form.terms) :]}
        if inner == {symbol for symbol, _ in form.terms} and low >= 0 and high < sizes[reg]:
            found.setdefault(loop, []).append((len(form.terms), reg))
    return {
        loop: LoopTurns(count, frozenset(reg for n, reg in regs if n == count))
        for loop, regs in found.items()
        for count in [max(regs)[0]]
    }


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
    def __init__(self, kernel: KernelIR, turns: Mapping[LoopIR, LoopTurns]) -> None:
        self.kernel = kernel
        self.turns = turns
        self.registers = {reg for found in turns.values() for reg in found.registers}
        self.rewriter = Rewriter(_Unfolded(), change=self._scalar)
        self.moved: dict[LoopIR, tuple[LoopIR, ...]] = {}

    def run(self) -> tuple[KernelIR, dict[LoopIR, tuple[LoopIR, ...]]]:
        """The kernel, and the new nests, outermost loop first."""
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
        nest = loop.perfect_nest
        items, leaf = self._items(nest[-1]), nest[-1]
        if leaf in self.turns:
            count = self.turns[leaf].count
            nest = (*nest[-count:], *nest[:-count])
        made: list[LoopIR] = []
        for level in reversed(nest):
            made.insert(0, LoopIR.from_items(items, counter=level.counter, axis_type=level.axis_type))
            items = (made[0],)
        if leaf in self.turns:
            self.moved[leaf] = tuple(made)
        return made[0]
