"""Holding registers: values that are loaded at an outer level and used after their location was overwritten."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRItem,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
    RegisterMeta,
    loads_used_by,
    operands,
)
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["hold_overwritten_loads"]


@dataclass
class _Placed:
    level: LoopIR
    order: int


@ir_pass(
    "hold-overwritten-loads",
    "loads whose place is overwritten before their use get a register",
    term="loop-invariant copy",
)
def hold_overwritten_loads(kernel: KernelIR) -> KernelIR:
    """Copy such loads to a new register right where they execute, and read that register where they are used.

    Otherwise the load may be repeated in every step of an inner loop, which is wrong once its location is overwritten.
    """
    order: dict[IRStatement, _Placed] = {}
    spans: dict[int, tuple[int, int]] = {}
    _number(kernel.loop_tree, order, spans)
    stores = [s for s in order if isinstance(s, IRBufStore | IRRegStore)]
    loads = {s for s in order if isinstance(s, IRBufLoad | IRRegLoad)}
    held: dict[IRStatement, RegisterMeta] = {}
    registers = list(kernel.registers)
    for use, place in order.items():
        for load in loads_used_by(operands(use), loads):
            home = order[load]
            if load in held or (home.level is place.level and not home.level.loops):
                continue
            end = _end_of_use(home.level, use, place, spans)
            if any(_writes(store, load) and home.order < order[store].order < end for store in stores):
                held[load] = RegisterMeta(1 + max((r.idx for r in registers), default=-1), load.dtype)
                registers.append(held[load])
    if not held:
        return kernel
    tree = _Insertion(held, order).level(kernel.loop_tree)
    return replace(kernel, loop_tree=tree, registers=tuple(registers))


def _number(loop: LoopIR, order: dict[IRStatement, _Placed], spans: dict[int, tuple[int, int]]) -> None:
    begin = len(order)
    for item in loop.items:
        if isinstance(item, LoopIR):
            _number(item, order, spans)
        else:
            order[item] = _Placed(loop, len(order))
    spans[id(loop)] = (begin, len(order))


def _end_of_use(home: LoopIR, use: IRStatement, place: _Placed, spans: dict[int, tuple[int, int]]) -> int:
    # A use inside an inner loop repeats until that loop ends.
    for inner in home.loops:
        begin, end = spans[id(inner)]
        if begin <= place.order < end:
            return end
    return place.order


def _writes(store: IRStatement, load: IRBufLoad | IRRegLoad) -> bool:
    if isinstance(load, IRBufLoad):
        return isinstance(store, IRBufStore) and store.buf_idx == load.buf_idx
    return isinstance(store, IRRegStore) and store.reg == load.reg


class _Insertion:
    def __init__(self, held: dict[IRStatement, RegisterMeta], order: dict[IRStatement, _Placed]) -> None:
        self.held = held
        self.order = order
        self.loads = {s for s in order if isinstance(s, IRBufLoad | IRRegLoad)}
        self.renamed: dict[IRValue, IRValue] = {}

    def level(self, loop: LoopIR) -> LoopIR:
        items: list[IRItem] = []
        here: set[IRStatement] = set()
        for item in loop.items:
            if isinstance(item, LoopIR):
                items.append(self.level(item))
                # Flattening repeats the loads before a loop in its steps: what comes after it needs the copy, too.
                here = set()
                continue
            reads, statement = self._rewritten(item, here)
            here.add(item)
            items.extend([*reads, statement])
            if item in self.held and isinstance(statement, IRBufLoad | IRRegLoad):
                items.append(IRRegStore(statement, self.held[item].idx))
        return LoopIR.from_items(tuple(items), counter=loop.counter, axis_type=loop.axis_type)

    def _rewritten(self, item: IRStatement, here: set[IRStatement]) -> tuple[list[IRRegLoad], IRStatement]:
        """A statement, and the registers that it reads in place of loads that are not `here`, in its own step."""
        reached = loads_used_by(operands(item), self.loads)
        used = [load for load in reached if load in self.held and load not in here]
        if not used and not any(load in self.renamed for load in reached):
            return [], item
        rewriter = Rewriter()
        loads = [load for load in self.order if isinstance(load, IRBufLoad | IRRegLoad)]
        rewriter.memo.update({load: self.renamed.get(load, load) for load in loads})
        reads = []
        for load in used:
            read = IRRegLoad(load.dtype, self.held[load].idx)
            rewriter.memo[load] = read
            reads.append(read)
        if isinstance(item, IRBufLoad | IRRegLoad):
            rewriter.memo.pop(item, None)
        rebuilt = rewriter.statement(item)
        if isinstance(item, IRBufLoad | IRRegLoad) and isinstance(rebuilt, IRBufLoad | IRRegLoad):
            self.renamed[item] = rebuilt
        return reads, rebuilt
