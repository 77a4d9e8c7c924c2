"""Gated loads without an alternative read zero where the gate is false; this pass makes the zero explicit."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.nodes import IRBufLoad, IRConst, IRItem, IRStatement, KernelIR, LoopIR
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["add_alternatives"]


@ir_pass("add-alternatives", "gated loads without an alternative get zero")
def add_alternatives(kernel: KernelIR) -> KernelIR:
    """Give every gated load the alternative that the golden model takes."""
    statements = kernel.loop_tree.statements()
    if not any(isinstance(s, IRBufLoad) and s.gate is not None and s.alt is None for s in statements):
        return kernel
    rewriter = Rewriter()

    def complete(statement: IRStatement) -> IRStatement:
        rebuilt = rewriter.statement(statement)
        if not isinstance(rebuilt, IRBufLoad) or rebuilt.gate is None or rebuilt.alt is not None:
            return rebuilt
        assert isinstance(statement, IRBufLoad), "a load stays a load"
        zero = IRConst(rebuilt.dtype.bits_to_const(0), rebuilt.dtype)
        rewriter.memo[statement] = rebuilt = replace(rebuilt, alt=zero)
        return rebuilt

    def level(loop: LoopIR) -> LoopIR:
        items: list[IRItem] = [level(i) if isinstance(i, LoopIR) else complete(i) for i in loop.items]
        return LoopIR.from_items(tuple(items), counter=loop.counter, axis_type=loop.axis_type)

    return replace(kernel, loop_tree=level(kernel.loop_tree))
