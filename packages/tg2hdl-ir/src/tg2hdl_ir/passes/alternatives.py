"""Gated loads without an alternative read zero where the gate is false; this pass makes the zero explicit."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.nodes import IRBufLoad, IRConst, IRStatement, KernelIR
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["add_alternatives"]


@ir_pass("add-alternatives", "gated loads without an alternative get zero")
def add_alternatives(kernel: KernelIR) -> KernelIR:
    """Give every gated load the alternative that the golden model takes."""
    statements = kernel.loop_tree.statements()
    if not any(isinstance(s, IRBufLoad) and s.gate is not None and s.alt is None for s in statements):
        return kernel

    def complete(_: IRStatement, rebuilt: IRStatement) -> IRStatement:
        if not isinstance(rebuilt, IRBufLoad) or rebuilt.gate is None or rebuilt.alt is not None:
            return rebuilt
        return replace(rebuilt, alt=IRConst(rebuilt.dtype.bits_to_const(0), rebuilt.dtype))

    return replace(kernel, loop_tree=Rewriter(change=complete).loop(kernel.loop_tree))
