"""Recognizes loops of a kernel that only add products."""

from __future__ import annotations

from dataclasses import dataclass

from tg2hdl_ir import (
    DType,
    IRBufLoad,
    IRBufStore,
    IRCounter,
    IRItem,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    LoopIR,
    is_const,
    values_below,
)

__all__ = ["SumOfProducts", "find_sum", "needs", "starts_at_zero", "uncast"]


@dataclass(frozen=True)
class SumOfProducts:
    """A reduction whose steps add a product."""

    reg: int
    factors: tuple[IRValue, IRValue]
    counters: tuple[IRCounter, ...]


def find_sum(loop: LoopIR) -> SumOfProducts | None:
    """The reduction that a nest of loops is, when it only adds products."""
    counters: list[IRCounter] = []
    statements: list[IRStatement] = []
    while True:
        inner = [i for i in loop.items if isinstance(i, LoopIR)]
        if loop.counter is None or loop.axis_type != "reduce" or len(inner) > 1:
            return None
        counters.append(loop.counter)
        here = [i for i in loop.items if not isinstance(i, LoopIR)]
        statements += here
        if not inner:
            break
        loop = inner[0]
    stores = [s for s in statements if isinstance(s, IRBufStore | IRRegStore)]
    reads = [s for s in statements if isinstance(s, IRRegLoad)]
    if len(stores) != 1 or len(reads) != 1 or stores[0] not in here or reads[0] not in here:
        return None
    (store,), (read,) = stores, reads
    if not isinstance(store, IRRegStore) or store.reg != read.reg or read.index is not None:
        return None
    value = store.value
    if store.gate is not None or store.index is not None or not isinstance(value, IROp):
        return None
    if value.dtype != DType.INT32:
        return None
    if value.op == "mulacc" and value.srcs[2] is read:
        return SumOfProducts(read.reg, (value.srcs[0], value.srcs[1]), tuple(counters))
    if value.op != "add" or read not in value.srcs:
        return None
    other = value.srcs[1] if value.srcs[0] is read else value.srcs[0]
    if not isinstance(other, IROp) or other.op != "mul":
        return None
    return SumOfProducts(read.reg, (other.srcs[0], other.srcs[1]), tuple(counters))


def starts_at_zero(reg: int, before: list[IRItem]) -> bool:
    """Whether a register is 0 after these items.

    Parameters
    ----------
    reg : int
        Index of the register.
    before : list of IRItem
        Items of the same block, in order.
    """
    for item in reversed(before):
        inside = item.statements() if isinstance(item, LoopIR) else (item,)
        for store in inside:
            if isinstance(store, IRRegStore) and store.reg == reg:
                return store is item and is_const(store.value, 0) and store.gate is None
    return False


def needs(value: IRValue) -> tuple[set[IRCounter], set[int]] | None:
    """Counters and buffers that a value depends on; None when it depends on a register."""
    seen = values_below((value,))
    if any(isinstance(n, IRRegLoad) for n in seen):
        return None
    counters = {n for n in seen if isinstance(n, IRCounter)}
    return counters, {n.buf_idx for n in seen if isinstance(n, IRBufLoad)}


def uncast(value: IRValue) -> IRValue:
    """The operand of a cast; any other value itself."""
    return value.srcs[0] if isinstance(value, IROp) and value.op == "cast" else value
