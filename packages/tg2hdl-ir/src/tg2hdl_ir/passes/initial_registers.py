"""Registers that are read before they are written start at zero in every run; hardware keeps their last value."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis
from tg2hdl_ir.nodes import (
    IRConst,
    IRCounter,
    IRItem,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRVariable,
    KernelIR,
    LoopIR,
    RegisterMeta,
)
from tg2hdl_ir.passes.instrument import ir_pass

__all__ = ["set_initial_registers"]


@ir_pass("set-initial-registers", "registers that are read first start at zero")
def set_initial_registers(kernel: KernelIR) -> KernelIR:
    """Store zero first to every register that has an element which is not certainly written before it is read."""
    affine = AffineAnalysis()
    accesses: dict[int, list[_Access]] = {r.idx: [] for r in kernel.registers}
    for statement, path in _with_paths(kernel.loop_tree, ()):
        if isinstance(statement, IRRegLoad | IRRegStore):
            form = Affine(0) if statement.index is None else affine.of(statement.index)
            accesses[statement.reg].append(_Access(statement, path, form))
    unset = [r for r in kernel.registers if not _is_set_first(r, accesses[r.idx])]
    if not unset:
        return kernel
    axis = 1 + max((loop.counter.axis for loop in kernel.loop_tree.walk() if loop.counter), default=-1)
    stores = [_zero(register, axis + n) for n, register in enumerate(unset)]
    items = (*stores, *kernel.loop_tree.items)
    return replace(kernel, loop_tree=LoopIR.from_items(items))


class _Access(NamedTuple):
    """An access to a register, the loops around it, and its index where that is affine."""

    statement: IRRegLoad | IRRegStore
    path: tuple[LoopIR, ...]
    form: Affine | None

    def elements(self, common: Collection[IRCounter | None]) -> tuple[Affine, set[int]] | None:
        """The part of the index that follows common counters and variables, and all values of the rest."""
        if self.form is None:
            return None
        fixed, values = Affine(0), np.array([self.form.const])
        for symbol, coefficient in self.form.terms:
            if symbol in common or isinstance(symbol, IRVariable):
                fixed = fixed.plus(Affine(0, ((symbol, coefficient),)))
            elif isinstance(symbol, IRCounter) and isinstance(symbol.bound, int):
                values = np.unique(values[:, None] + coefficient * np.arange(symbol.bound))
            else:
                return None
        return fixed, set(values.tolist())


def _with_paths(loop: LoopIR, path: tuple[LoopIR, ...]) -> Iterator[tuple[IRStatement, tuple[LoopIR, ...]]]:
    for item in loop.items:
        if isinstance(item, LoopIR):
            yield from _with_paths(item, (*path, item))
        else:
            yield item, path


def _is_set_first(register: RegisterMeta, accesses: Sequence[_Access]) -> bool:
    """Whether stores without a gate come before each load, to all elements that it may read."""
    stores: list[_Access] = []
    for access in accesses:
        if isinstance(access.statement, IRRegStore):
            stores += [access] if access.statement.gate is None else []
        elif not _is_covered(access, stores, register.size):
            return False
    return True


def _is_covered(load: _Access, stores: Sequence[_Access], size: int) -> bool:
    missing: dict[Affine, set[int]] = {}
    for store in stores:
        common = {a.counter for a, b in zip(store.path, load.path, strict=False) if a is b}
        read, written = load.elements(common) or (Affine(0), set(range(size))), store.elements(common)
        if written is not None and written[0] == read[0]:
            rest = missing.setdefault(read[0], read[1])
            rest -= written[1]
            if not rest:
                return True
    return False


def _zero(register: RegisterMeta, axis: int) -> IRItem:
    zero = IRConst(register.dtype.bits_to_const(0), register.dtype)
    if register.size == 1:
        return IRRegStore(zero, register.idx)
    counter = IRCounter(register.size, 0, axis)
    return LoopIR.from_items((IRRegStore(zero, register.idx, counter),), counter=counter)
