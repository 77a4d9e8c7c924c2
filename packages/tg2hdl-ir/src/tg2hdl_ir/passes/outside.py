"""Accesses that data may lead outside their buffer or array of registers: hardware must be told to leave these out."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.analysis.address_range import gated_interval
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    KernelIR,
    const_int,
)
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["gate_outside_accesses"]


@ir_pass(
    "gate-outside-accesses",
    "accesses that may be outside their buffer or array are gated",
    term="predication",
)
def gate_outside_accesses(kernel: KernelIR) -> KernelIR:
    """Close the gate of each access where its address is outside, as the golden model does."""
    gates = _Gates(kernel)
    return replace(kernel, loop_tree=gates.rewriter.loop(kernel.loop_tree)) if gates.outside else kernel


class _Gates:
    def __init__(self, kernel: KernelIR) -> None:
        self.rewriter = Rewriter(change=self._gated)
        self.folder = self.rewriter.folder
        self.depths = {b.idx: b.depth for b in kernel.buffers}
        self.sizes = {r.idx: r.size for r in kernel.registers}
        self.indices: dict[tuple[IRValue, int], IRValue] = {}
        limits = {statement: self._limits(statement) for statement in kernel.loop_tree.statements()}
        self.outside = {statement: found for statement, found in limits.items() if any(found)}

    def _limits(self, statement: IRStatement) -> tuple[bool, bool]:
        """Whether the address of a statement may be below and above its buffer or array."""
        address, size = self._place(statement)
        if address is None:
            return False, False
        gate = None if isinstance(statement, IRRegLoad) else statement.gate
        low, high = gated_interval(address, gate, self.folder.ranges, self.folder.affine)
        return low < 0, high >= size

    def _place(self, statement: IRStatement) -> tuple[IRValue | None, int]:
        if isinstance(statement, IRBufLoad | IRBufStore):
            return statement.addr, self.depths[statement.buf_idx]
        return statement.index, self.sizes[statement.reg]

    def _gated(self, statement: IRStatement, rebuilt: IRStatement) -> IRStatement:
        if statement not in self.outside:
            return rebuilt
        address, size = self._place(rebuilt)
        assert address is not None, "a value that is outside has an address"
        below, above = self.outside[statement]
        inside = self.folder.all_of(
            self.folder.op("lt", DType.BOOL, const_int(-1, address.dtype), address) if below else None,
            self.folder.below(address, size) if above else None,
        )
        if inside is None:
            return rebuilt
        match rebuilt:
            case IRBufLoad() | IRBufStore():
                return replace(rebuilt, gate=self.folder.all_of(inside, rebuilt.gate))
            case IRRegStore():
                index = self._index(inside, address, size)
                return replace(rebuilt, index=index, gate=self.folder.all_of(inside, rebuilt.gate))
            case IRRegLoad():
                load = replace(rebuilt, index=self._index(inside, address, size))
                zero = IRConst(load.dtype.bits_to_const(0), load.dtype)
                assert isinstance(statement, IRRegLoad), "a load stays a load"
                self.rewriter.memo[statement] = self.folder.op("where", load.dtype, inside, load, zero)
                return load

    def _index(self, inside: IRValue, index: IRValue, size: int) -> IRValue:
        """Zero where an index is outside; the same value for the same index, so that stores are forwarded to loads."""
        key = index, size
        if key not in self.indices:
            zero = const_int(0, index.dtype)
            self.indices[key] = self.folder.op("where", index.dtype, inside, index, zero)
        return self.indices[key]
