"""Registers that are read before they are written start at zero in every run; hardware keeps their last value."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.nodes import (
    IRConst,
    IRCounter,
    IRItem,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    KernelIR,
    LoopIR,
    RegisterMeta,
)
from tg2hdl_ir.passes.instrument import ir_pass

__all__ = ["set_initial_registers"]


@ir_pass("set-initial-registers", "registers that are read first start at zero")
def set_initial_registers(kernel: KernelIR) -> KernelIR:
    """Store zero first to every register that has an element which is not certainly written before it is read."""
    order = list(kernel.loop_tree.statements())
    unset = [r for r in kernel.registers if not _is_set_first(r, order)]
    if not unset:
        return kernel
    axis = 1 + max((loop.counter.axis for loop in kernel.loop_tree.walk() if loop.counter), default=-1)
    stores = [_zero(register, axis + n) for n, register in enumerate(unset)]
    items = (*stores, *kernel.loop_tree.items)
    return replace(kernel, loop_tree=LoopIR.from_items(items))


def _is_set_first(register: RegisterMeta, order: list[IRStatement]) -> bool:
    """Whether stores without a gate come before the first load, to all elements that constants name."""
    stored: set[int | None] = set()
    for statement in order:
        if not isinstance(statement, IRRegLoad | IRRegStore) or statement.reg != register.idx:
            continue
        index = int(statement.index.value) if isinstance(statement.index, IRConst) else None
        known = statement.index is None or isinstance(statement.index, IRConst)
        if isinstance(statement, IRRegLoad):
            everything = None in stored or len(stored) == register.size
            if not everything and not (known and index in stored):
                return False
        elif statement.gate is None:
            stored.add(index)
    return True


def _zero(register: RegisterMeta, axis: int) -> IRItem:
    zero = IRConst(register.dtype.bits_to_const(0), register.dtype)
    if register.size == 1:
        return IRRegStore(zero, register.idx)
    counter = IRCounter(register.size, 0, axis)
    return LoopIR.from_items((IRRegStore(zero, register.idx, counter),), counter=counter)
