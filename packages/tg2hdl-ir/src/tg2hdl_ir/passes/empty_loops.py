"""Loops that may run no time: hardware takes at least one step for each, so that step must do nothing."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRCounter,
    IRItem,
    IRRegLoad,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
)
from tg2hdl_ir.passes.fold import Folder, const_int
from tg2hdl_ir.passes.ranges import RangeAnalysis
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["guard_empty_loops"]


def guard_empty_loops(kernel: KernelIR) -> KernelIR:
    """Remove loops without iterations; where only the run time tells, run one masked iteration instead of none."""
    if all(_always_runs(loop.bound) for loop in kernel.loop_tree.walk()):
        return kernel
    guard = _Guard()
    return replace(kernel, loop_tree=guard.level(kernel.loop_tree, None))


def _always_runs(bound: int | IRValue) -> bool:
    return bound > 0 if isinstance(bound, int) else RangeAnalysis().of(bound)[0] > 0


class _Guard:
    def __init__(self) -> None:
        self.folder = Folder()
        self.rewriter = Rewriter(self.folder)

    def level(self, loop: LoopIR, gate: IRValue | None) -> LoopIR:
        """Level with the statements under a gate; its own counter is replaced where it could be empty."""
        counter, gate = self._counter(loop.counter, gate)
        items: list[IRItem] = []
        for item in loop.items:
            if not isinstance(item, LoopIR):
                items.append(self._statement(item, gate))
            elif not isinstance(item.bound, int) or item.bound > 0:
                items.append(self.level(item, gate))
        return LoopIR.from_items(tuple(items), counter=counter, axis_type=loop.axis_type)

    def _counter(
        self, counter: IRCounter | None, gate: IRValue | None
    ) -> tuple[IRCounter | None, IRValue | None]:
        if counter is None or isinstance(counter.bound, int) or _always_runs(counter.bound):
            return counter, gate
        bound = counter.bound
        zero, one = const_int(0, bound.dtype), const_int(1, bound.dtype)
        runs = self.folder.op("lt", DType.BOOL, zero, bound)
        least = self.folder.op("max", bound.dtype, bound, one)
        new = IRCounter(least, counter.depth, counter.axis, counter.dtype)
        self.rewriter.memo[counter] = new
        return new, self.folder.all_of(gate, runs)

    def _statement(self, statement: IRStatement, gate: IRValue | None) -> IRStatement:
        rebuilt = self.rewriter.statement(statement)
        if gate is None or isinstance(rebuilt, IRRegLoad):
            return rebuilt
        gated = replace(rebuilt, gate=self.folder.all_of(gate, rebuilt.gate))
        if isinstance(statement, IRBufLoad) and isinstance(gated, IRBufLoad):
            self.rewriter.memo[statement] = gated
        return gated
