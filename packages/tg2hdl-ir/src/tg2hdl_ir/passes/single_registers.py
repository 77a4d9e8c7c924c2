"""Arrays of one register are plain registers."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.nodes import IRItem, IRRegLoad, IRRegStore, IRStatement, KernelIR, LoopIR
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
    rewriter = Rewriter()

    def plain(statement: IRStatement) -> IRStatement:
        rebuilt = rewriter.statement(statement)
        if not isinstance(rebuilt, IRRegLoad | IRRegStore) or rebuilt.reg not in single:
            return rebuilt
        rebuilt = replace(rebuilt, index=None)
        if isinstance(statement, IRRegLoad) and isinstance(rebuilt, IRRegLoad):
            rewriter.memo[statement] = rebuilt
        return rebuilt

    def level(loop: LoopIR) -> LoopIR:
        items: list[IRItem] = [level(i) if isinstance(i, LoopIR) else plain(i) for i in loop.items]
        return LoopIR.from_items(tuple(items), counter=loop.counter, axis_type=loop.axis_type)

    return replace(kernel, loop_tree=level(kernel.loop_tree))
