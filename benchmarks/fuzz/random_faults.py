"""Random faults in what a rewrite returns: well-formed kernels that compute something else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tg2hdl_ir import (
    DType,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IRItem,
    IROp,
    IRRegStore,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
    ProgramIR,
    operands,
    values_below,
)
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["faulty"]

OTHER = {"add": "sub", "sub": "add", "max": "min", "min": "max", "mul": "add", "and": "or", "or": "and"}
"""Ops that become another one of the same type."""


def faulty(before: Any, result: Any, seed: int) -> Any:
    """The result of a rewrite with one fault, where the rewrite changed something."""
    rng = np.random.default_rng(seed)
    if isinstance(result, list):
        return [faulty(before, form, seed) for form in result]
    if isinstance(result, tuple):
        places = [n for n, made in enumerate(result) if isinstance(made, KernelIR | ProgramIR)]
        if not places:
            return result
        place = places[0] if isinstance(before, ProgramIR) else places[int(rng.integers(len(places)))]
        items = list(result)
        items[place] = faulty(before, items[place], seed)
        return tuple(items)
    if result is before:
        return result
    if isinstance(result, KernelIR):
        return _with_fault(result, rng)
    if isinstance(result, ProgramIR):
        old = {call.kernel for call in before.calls}
        fresh = [k for k in dict.fromkeys(call.kernel for call in result.calls) if k not in old]
        if not fresh:
            return _other_buffer(before, result, rng)
        chosen = fresh[int(rng.integers(len(fresh)))]
        made = _with_fault(chosen, rng)
        calls = (replace(c, kernel=made) if c.kernel is chosen else c for c in result.calls)
        return replace(result, calls=tuple(calls))
    return result


def _other_buffer(before: ProgramIR, result: ProgramIR, rng: np.random.Generator) -> ProgramIR:
    """A call that uses another buffer of the same type and size, where the buffers of calls are others."""
    if [c.buffers for c in before.calls] == [c.buffers for c in result.calls]:
        return result
    number = int(rng.integers(len(result.calls)))
    call = result.calls[number]
    slot = int(rng.integers(len(call.buffers)))
    used = result.buffers[call.buffers[slot]]
    others = [
        n
        for n, b in enumerate(result.buffers)
        if n not in call.buffers and (b.dtype, b.depth) == (used.dtype, used.depth)
    ]
    if not others:
        return result
    other = others[int(rng.integers(len(others)))]
    moved = replace(call, buffers=(*call.buffers[:slot], other, *call.buffers[slot + 1 :]))
    return replace(result, calls=(*result.calls[:number], moved, *result.calls[number + 1 :]))


def _with_fault(kernel: KernelIR, rng: np.random.Generator) -> KernelIR:
    kinds: list[Callable[[KernelIR, np.random.Generator], LoopIR | None]] = [
        _op, _op, _constant, _address, _gate, _lost, _bound, _value,
    ]  # fmt: skip
    for n in rng.permutation(len(kinds)):
        tree = kinds[n](kernel, rng)
        if tree is not None:
            return replace(kernel, loop_tree=tree)
    return kernel


def _values(kernel: KernelIR) -> list[IRValue]:
    return list(values_below([v for s in kernel.loop_tree.statements() for v in operands(s)]))


def _op(kernel: KernelIR, rng: np.random.Generator) -> LoopIR | None:
    """Another op, or its operands the other way round."""
    count = 0

    def is_place(op: IROp) -> bool:
        return op.op in OTHER or op.op in ("where", "lt")

    def counting(op: IROp) -> None:
        nonlocal count
        count += is_place(op)

    Rewriter(replace=counting).loop(kernel.loop_tree)
    if not count:
        return None
    place, seen = int(rng.integers(count)), 0

    def other(op: IROp) -> IRValue | None:
        nonlocal seen
        if not is_place(op):
            return None
        seen += 1
        if seen - 1 != place:
            return None
        if op.op == "where":
            return replace(op, srcs=(op.srcs[0], op.srcs[2], op.srcs[1]))
        if op.op == "lt":
            return replace(op, srcs=op.srcs[::-1])
        return replace(op, op=OTHER[op.op])

    return Rewriter(replace=other).loop(kernel.loop_tree)


def _constant(kernel: KernelIR, rng: np.random.Generator) -> LoopIR | None:
    """A constant that is one more."""
    constants = [v for v in _values(kernel) if isinstance(v, IRConst) and not v.dtype.is_bool]
    if not constants:
        return None
    chosen = constants[int(rng.integers(len(constants)))]
    value = chosen.value + 1 if chosen.dtype.is_float else chosen.dtype.wrap(int(chosen.value) + 1)
    rewriter = Rewriter()
    rewriter.memo[chosen] = IRConst(value, chosen.dtype)
    return rewriter.loop(kernel.loop_tree)


def _changed(
    kernel: KernelIR, rng: np.random.Generator, kinds: Any, change: Callable[[Any], IRStatement]
) -> LoopIR | None:
    """One statement of some kinds changed."""
    statements = [s for s in kernel.loop_tree.statements() if isinstance(s, kinds)]
    if not statements:
        return None
    chosen = statements[int(rng.integers(len(statements)))]
    return Rewriter(change=lambda old, new: change(new) if old is chosen else new).loop(kernel.loop_tree)


def _address(kernel: KernelIR, rng: np.random.Generator) -> LoopIR | None:
    """An access of the next element."""

    def moved(access: Any) -> Any:
        dtype = access.addr.dtype
        depth = kernel.buffer(access.buf_idx).depth
        last = IROp("lt", DType.BOOL, (access.addr, IRConst(depth - 1, dtype)))
        more = IROp("add", dtype, (access.addr, IRConst(1, dtype)))
        return replace(access, addr=IROp("where", dtype, (last, more, IRConst(0, dtype))))

    return _changed(kernel, rng, (IRBufLoad, IRBufStore), moved)


def _gate(kernel: KernelIR, rng: np.random.Generator) -> LoopIR | None:
    """A store or load without its gate."""
    if not any(getattr(s, "gate", None) is not None for s in kernel.loop_tree.statements()):
        return None
    gated = [s for s in kernel.loop_tree.statements() if getattr(s, "gate", None) is not None]
    chosen = gated[int(rng.integers(len(gated)))]
    if isinstance(chosen, IRBufLoad):
        return None
    return Rewriter(change=lambda old, new: replace(new, gate=None) if old is chosen else new).loop(
        kernel.loop_tree
    )


def _lost(kernel: KernelIR, rng: np.random.Generator) -> LoopIR | None:
    """A store that is missing; a kernel without stores is refused in any case."""
    stores = [s for s in kernel.loop_tree.statements() if isinstance(s, IRBufStore | IRRegStore)]
    kept = sum(isinstance(s, IRBufStore) for s in stores)
    chosen = stores[int(rng.integers(len(stores)))]
    if isinstance(chosen, IRBufStore) and kept < 2:
        return None

    def without(loop: LoopIR) -> LoopIR:
        items: list[IRItem] = [
            without(item) if isinstance(item, LoopIR) else item for item in loop.items if item is not chosen
        ]
        return LoopIR.from_items(tuple(items), counter=loop.counter, axis_type=loop.axis_type)

    return without(kernel.loop_tree)


def _bound(kernel: KernelIR, rng: np.random.Generator) -> LoopIR | None:
    """A loop that ends an iteration too early."""
    counters = [loop.counter for loop in kernel.loop_tree.walk() if loop.counter is not None]
    long = [c for c in counters if isinstance(c.bound, int) and c.bound > 1]
    if not long:
        return None
    chosen = long[int(rng.integers(len(long)))]
    assert isinstance(chosen.bound, int), "it is long"
    rewriter = Rewriter()
    rewriter.memo[chosen] = IRCounter(chosen.bound - 1, chosen.depth, chosen.axis, chosen.dtype)
    return rewriter.loop(kernel.loop_tree)


def _value(kernel: KernelIR, rng: np.random.Generator) -> LoopIR | None:
    """A value that loses its high bits, or its sign."""

    def narrow(store: Any) -> Any:
        dtype = store.value.dtype
        if dtype.is_bool:
            return store
        value = IROp("neg", dtype, (store.value,))
        if dtype.is_int and dtype.bit_width > 8:
            value = IROp("cast", dtype, (IROp("cast", DType.INT8, (store.value,)),))
        return replace(store, value=value)

    return _changed(kernel, rng, (IRBufStore, IRRegStore), narrow)
