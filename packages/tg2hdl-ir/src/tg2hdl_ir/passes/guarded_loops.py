"""Loops whose hardware executes steps without effect.

Hardware takes at least one step for each loop, also when a run-time bound is zero.  A run-time bound that control
cannot compute without a divider is replaced by the largest one.
"""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.analysis.ranges import RangeAnalysis
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRConst,
    IRCounter,
    IRItem,
    IROp,
    IRRegLoad,
    IRStatement,
    IRValue,
    IRVariable,
    KernelIR,
    LoopIR,
    const_int,
)
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["BOUND_OPS", "guard_loops"]

BOUND_OPS = frozenset({"add", "sub", "mul", "min", "max", "shl", "shr", "and", "cast"})
"""Operations that control computes in the bound of a loop."""


@ir_pass("guard-loops", "loops that take more steps than they run are masked", term="if-conversion")
def guard_loops(kernel: KernelIR) -> KernelIR:
    """Remove loops without iterations, and mask the steps of those that hardware runs too often."""
    if all(_is_exact(loop.bound) for loop in kernel.loop_tree.walk()):
        return kernel
    guard = _Guard()
    return replace(kernel, loop_tree=guard.level(kernel.loop_tree, None))


def _is_exact(bound: int | IRValue) -> bool:
    """Whether hardware runs the loop exactly `bound` times."""
    if isinstance(bound, int):
        return bound > 0
    return _is_simple(bound) and RangeAnalysis().of(bound)[0] > 0


def _is_simple(bound: IRValue) -> bool:
    match bound:
        case IRConst() | IRVariable():
            return True
        case IROp(op="shl" | "shr", srcs=(value, IRConst())):
            return _is_simple(value)
        case IROp(op="shl" | "shr"):
            return False
        case IROp():
            return bound.op in BOUND_OPS and all(map(_is_simple, bound.srcs))
    return False


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
        if counter is None or isinstance(counter.bound, int) or _is_exact(counter.bound):
            return counter, gate
        bound = counter.bound
        if _is_simple(bound):
            zero, one = const_int(0, bound.dtype), const_int(1, bound.dtype)
            runs = self.folder.op("lt", DType.BOOL, zero, bound)
            steps: int | IRValue = self.folder.op("max", bound.dtype, bound, one)
        else:
            steps = max(1, self.folder.ranges.of(bound)[1])
        new = IRCounter(steps, counter.depth, counter.axis, counter.dtype)
        if isinstance(steps, int):
            runs = self.folder.op("lt", DType.BOOL, self.folder.op("cast", bound.dtype, new), bound)
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
