"""Nesting levels of loops after some of them were removed."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import IROp, IRValue, LoopIR
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["number_depths"]


class _Unchanged(Folder):
    """Makes ops without simplifying them."""

    def op(self, op: str, dtype: DType, *srcs: IRValue) -> IRValue:
        return IROp(op, dtype, srcs)

    def all_of(self, *gates: IRValue | None) -> IRValue | None:
        (gate,) = gates
        return gate


def number_depths(root: LoopIR) -> LoopIR:
    """Give each loop and its counter their level; the same tree when all are right."""
    rewriter = Rewriter(_Unchanged())
    moved = False

    def visit(loop: LoopIR, depth: int) -> None:
        nonlocal moved
        for inner in loop.loops:
            if inner.counter is not None and inner.counter.depth != depth:
                rewriter.memo[inner.counter] = replace(inner.counter, depth=depth)
                moved = True
            visit(inner, depth + 1)

    visit(root, 0)
    return rewriter.loop(root) if moved else root
