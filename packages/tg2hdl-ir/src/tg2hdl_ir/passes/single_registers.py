"""Arrays of one register are plain registers."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.nodes import IRRegLoad, IRRegStore, IRStatement, KernelIR
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["drop_single_indices"]


@ir_pass("drop-single-indices", "arrays of one register become registers")
def drop_single_indices(kernel: KernelIR) -> KernelIR:
    """Remove the index from accesses to registers that have one element."""
    single = {r.idx for r in kernel.registers if r.size == 1}
    found = any(
        isinstance(s, IRRegLoad | IRRegStore) and s.reg in single and s.index is not None
        for s in kernel.loop_tree.statements()
    )
    if not found:
        return kernel

    def plain(_: IRStatement, rebuilt: IRStatement) -> IRStatement:
        if not isinstance(rebuilt, IRRegLoad | IRRegStore) or rebuilt.reg not in single:
            return rebuilt
        return replace(rebuilt, index=None)

    return replace(kernel, loop_tree=Rewriter(change=plain).loop(kernel.loop_tree))
