"""Accesses that data may lead outside their buffer: hardware must be told to leave these out."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.analysis.address_range import gated_interval
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRItem,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
    const_int,
)
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["gate_outside_accesses"]


@ir_pass("gate-outside-accesses", "accesses that may be outside their buffer are gated")
def gate_outside_accesses(kernel: KernelIR) -> KernelIR:
    """Close the gate of each access where its address is outside, as the golden model does."""
    rewriter = Rewriter()
    folder = rewriter.folder
    depths = {b.idx: b.depth for b in kernel.buffers}

    def limits(access: IRBufLoad | IRBufStore) -> tuple[bool, bool]:
        low, high = gated_interval(access, folder.ranges, folder.affine)
        return low < 0, high >= depths[access.buf_idx]

    accesses = [s for s in kernel.loop_tree.statements() if isinstance(s, IRBufLoad | IRBufStore)]
    outside = {s: found for s in accesses if any(found := limits(s))}
    if not outside:
        return kernel

    def inside(address: IRValue, depth: int, *, below: bool, above: bool) -> IRValue | None:
        positive = folder.op("lt", DType.BOOL, const_int(-1, address.dtype), address) if below else None
        return folder.all_of(positive, folder.below(address, depth) if above else None)

    def gated(statement: IRStatement) -> IRStatement:
        rebuilt = rewriter.statement(statement)
        if not isinstance(statement, IRBufLoad | IRBufStore) or statement not in outside:
            return rebuilt
        assert isinstance(rebuilt, IRBufLoad | IRBufStore), "an access stays an access"
        below, above = outside[statement]
        gate = inside(rebuilt.addr, depths[rebuilt.buf_idx], below=below, above=above)
        rebuilt = replace(rebuilt, gate=folder.all_of(gate, rebuilt.gate))
        if isinstance(statement, IRBufLoad) and isinstance(rebuilt, IRBufLoad):
            rewriter.memo[statement] = rebuilt
        return rebuilt

    def level(loop: LoopIR) -> LoopIR:
        items: list[IRItem] = [level(i) if isinstance(i, LoopIR) else gated(i) for i in loop.items]
        return LoopIR.from_items(tuple(items), counter=loop.counter, axis_type=loop.axis_type)

    return replace(kernel, loop_tree=level(kernel.loop_tree))
