"""Producers: a value that is computed again for every output and tap is computed once, by a kernel of its own.

tinygrad fuses elementwise operations, such as an activation function, into the reduction that reads the elements:
a convolution then does it for each of its outputs and taps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tg2hdl_ir.nodes import (
    BufferMeta,
    IRBufLoad,
    IRBufStore,
    IRCounter,
    IRItem,
    IROp,
    IRRegLoad,
    IRStatement,
    IRValue,
    IRVariable,
    KernelIR,
    LoopIR,
)
from tg2hdl_ir.passes.dead_loads import kernel_of
from tg2hdl_ir.passes.elements import Elements, elements_of
from tg2hdl_ir.passes.flat_address import flat_address
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.tree import operands, values_below

__all__ = ["producer_forms"]

REUSE = 2
"""Least number of times that a value is computed."""
SMALL = 16384
"""Largest buffer of a producer that may exceed those that it reads: one block RAM (bits)."""


@dataclass(frozen=True, eq=False)
class _Producer:
    """A value, the loads that it is made of in program order, and the elements of the buffer that holds it."""

    root: IROp
    loads: tuple[IRBufLoad, ...]
    elements: Elements


@ir_pass(
    "producers", "values that are computed again and again become a kernel", term="loop-invariant code motion"
)
def producer_forms(kernel: KernelIR) -> list[tuple[KernelIR, ...]]:
    """The kernels of all producers and then the rest, as the one form; none without a producer.

    A producer depends on elements of buffers and multiplies two of them, and its loops run at least `REUSE` times for
    each value that it has.
    """
    found = list(_producers(kernel))
    if not found:
        return []
    free = 1 + max(b.idx for b in kernel.buffers)
    made, metas = [], []
    rewriter = Rewriter()
    reads: dict[IRStatement, list[IRBufLoad]] = {}
    for number, producer in enumerate(found):
        root, elements = producer.root, producer.elements
        meta = BufferMeta(free + number, elements.depth, root.dtype, True)
        name = f"{kernel.name}_producer{number if len(found) > 1 else ''}"
        made.append(kernel_of(kernel, _computing(producer, meta), name, (meta,)))
        metas.append(replace(meta, is_output=False))
        load = IRBufLoad(meta.idx, elements.address, root.dtype, elements.gate, elements.alternative)
        rewriter.memo[root] = load
        reads.setdefault(producer.loads[-1], []).append(load)
    tree = _with_reads(kernel.loop_tree, reads, rewriter)
    return [(*made, kernel_of(kernel, tree, f"{kernel.name}_rest", tuple(metas)))]


def _producers(kernel: KernelIR) -> Iterator[_Producer]:
    statements = list(kernel.loop_tree.statements())
    stored = {s.buf_idx for s in statements if isinstance(s, IRBufStore)}
    paths = dict(_loads((kernel.loop_tree,)))
    order = {load: number for number, load in enumerate(paths)}
    stack = [v for s in statements if not isinstance(s, IRBufLoad) for v in operands(s)]
    seen: set[IRValue] = set()
    while stack:
        value = stack.pop()
        if value in seen or not isinstance(value, IROp):
            continue
        seen.add(value)
        below = values_below((value,))
        loads = tuple(sorted((v for v in below if isinstance(v, IRBufLoad)), key=order.__getitem__))
        producer = None
        if loads and not _depends(below, stored) and any(map(_multiplies, below)):
            producer = _producer(kernel, value, loads, paths[loads[-1]])
        if producer is None:
            stack.extend(value.srcs)
        else:
            yield producer


def _loads(path: tuple[LoopIR, ...]) -> Iterator[tuple[IRValue, tuple[LoopIR, ...]]]:
    for item in path[-1].items:
        if isinstance(item, LoopIR):
            yield from _loads((*path, item))
        elif isinstance(item, IRBufLoad):
            yield item, path


def _depends(below: Mapping[IRValue, None], stored: set[int]) -> bool:
    """Whether a value depends on anything but counters of known bounds and buffers that the kernel does not write."""
    return any(
        isinstance(v, IRRegLoad | IRVariable)
        or (isinstance(v, IRBufLoad) and v.buf_idx in stored)
        or (isinstance(v, IRCounter) and not isinstance(v.bound, int))
        for v in below
    )


def _multiplies(value: IRValue) -> bool:
    """Whether a value is a product of two loaded values, which takes a multiplier of the budget."""
    return isinstance(value, IROp) and value.op in ("mul", "mulacc") and all(map(_is_loaded, value.srcs[:2]))


def _is_loaded(value: IRValue) -> bool:
    return any(isinstance(v, IRBufLoad) for v in values_below((value,)))


def _producer(
    kernel: KernelIR, root: IROp, loads: tuple[IRBufLoad, ...], path: tuple[LoopIR, ...]
) -> _Producer | None:
    """The producer of a value, whose last load is in the last loop of `path`; None where it is not computed again."""
    bounds = [loop.bound for loop in path if isinstance(loop.bound, int)]
    counters = {loop.counter for loop in path}
    if len(bounds) < len(path) or not _counters(root) <= counters:
        return None
    elements = elements_of(kernel, root, loads)
    read = max(kernel.buffer(load.buf_idx).depth for load in loads)
    fits = elements.depth <= read or elements.depth * root.dtype.bit_width <= SMALL
    return _Producer(root, loads, elements) if fits and REUSE * elements.depth <= math.prod(bounds) else None


def _counters(root: IROp) -> set[IRCounter | None]:
    return {value for value in values_below((root,)) if isinstance(value, IRCounter)}


def _computing(producer: _Producer, meta: BufferMeta) -> LoopIR:
    """Loops that store each element of a producer."""
    elements, rewriter = producer.elements, Rewriter()
    rewriter.memo.update(elements.values)
    items: list[IRItem] = []
    for load in producer.loads:
        if load in elements.addresses:
            made = IRBufLoad(load.buf_idx, elements.addresses[load], load.dtype)
            rewriter.memo[load] = made
            items.append(made)
        else:
            items.append(rewriter.statement(load))
    value = rewriter.value(producer.root)
    items.append(IRBufStore(meta.idx, flat_address(elements.counters), value, meta.dtype))
    for counter in reversed(elements.counters):
        items = [LoopIR.from_items(tuple(items), counter=counter, axis_type="loop")]
    return LoopIR.from_items(tuple(items))


def _with_reads(loop: LoopIR, reads: Mapping[IRStatement, list[IRBufLoad]], rewriter: Rewriter) -> LoopIR:
    items: list[IRItem] = []
    for item in loop.items:
        if isinstance(item, LoopIR):
            items.append(_with_reads(item, reads, rewriter))
            continue
        items.append(rewriter.statement(item))
        items.extend(reads.get(item, ()))
    return LoopIR.from_items(tuple(items), counter=loop.counter, axis_type=loop.axis_type)
