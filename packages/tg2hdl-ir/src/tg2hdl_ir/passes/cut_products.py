"""Loop fission between products: the later products of a chain, and the rest, become a kernel of their own.

A step that multiplies several times needs so many multipliers in each lane, and they wait for the latency between the
first product and the last one when a kernel begins and when it ends.  Two kernels have lanes of their own number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tg2hdl_ir.nodes import (
    BufferMeta,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRItem,
    IROp,
    IRValue,
    KernelIR,
    LoopIR,
    operands,
)
from tg2hdl_ir.passes.dead_loads import kernel_of
from tg2hdl_ir.passes.flat_address import flat_address
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["cut_products", "product_cuts"]


def product_cuts(kernel: KernelIR) -> Iterator[IRValue]:
    """Values at which a kernel without registers can be cut: all later products depend on each, and on nothing else."""
    path = _path(kernel)
    if path is None:
        return
    stores = [s for s in path[-1].statements() if isinstance(s, IRBufStore)]
    levels = _levels([s.value for s in stores])
    for level in range(1, max(levels.values(), default=0)):
        found = _crossing(stores, levels, level)
        if found is not None:
            yield found


@ir_pass("cut-products", "the later products of a chain become a kernel of their own", term="loop fission")
def cut_products(kernel: KernelIR, value: IRValue) -> tuple[KernelIR, KernelIR, BufferMeta]:
    """The two kernels of a cut and the buffer of `value` between them, an output of the first.

    Parameters
    ----------
    kernel : KernelIR
    value : IRValue
        One of `product_cuts`.
    """
    path = _path(kernel)
    assert path is not None, "checked by product_cuts"
    counters = [loop.counter for loop in path if loop.counter is not None]
    depth = 1
    for counter in counters:
        assert isinstance(counter.bound, int), "checked by product_cuts"
        depth *= counter.bound
    meta = BufferMeta(1 + max(b.idx for b in kernel.buffers), depth, value.dtype, True)
    address, leaf = flat_address(counters), path[-1].items
    loads: tuple[IRItem, ...] = tuple(s for s in leaf if isinstance(s, IRBufLoad))
    before = _nest(path, (*loads, IRBufStore(meta.idx, address, value, meta.dtype)))
    rewriter = Rewriter()
    load = rewriter.memo[value] = IRBufLoad(meta.idx, address, meta.dtype)
    rest = [rewriter.statement(s) for s in leaf if not isinstance(s, LoopIR)]
    after = _nest(path, (load, *rest))
    return (
        kernel_of(kernel, before, f"{kernel.name}_products", (meta,)),
        kernel_of(kernel, after, f"{kernel.name}_last", (replace(meta, is_output=False),)),
        meta,
    )


def _path(kernel: KernelIR) -> tuple[LoopIR, ...] | None:
    """Loops of a perfect nest that computes floats, without registers, and reads no buffer that it writes."""
    path = [kernel.loop_tree]
    while path[-1].loops:
        if len(path[-1].items) > 1 or not isinstance(path[-1].loops[0].bound, int):
            return None
        path.append(path[-1].loops[0])
    statements = list(path[-1].statements())
    stores = [s for s in statements if isinstance(s, IRBufStore)]
    loads = [s for s in statements if isinstance(s, IRBufLoad)]
    if len(stores) + len(loads) < len(statements) or len(path) < 2:
        return None
    if any(s.gate is not None or not s.dtype.is_float for s in stores):
        return None
    return None if {s.buf_idx for s in stores} & {s.buf_idx for s in loads} else tuple(path)


def _nest(path: tuple[LoopIR, ...], items: tuple[IRItem, ...]) -> LoopIR:
    tree = LoopIR.from_items(items, counter=path[-1].counter, axis_type=path[-1].axis_type)
    for level in reversed(path[:-1]):
        tree = LoopIR.from_items((tree,), counter=level.counter, axis_type=level.axis_type)
    return tree


def _levels(roots: list[IRValue]) -> dict[IRValue, int]:
    """Products of two values on the longest path to each value, its own one included."""
    levels: dict[IRValue, int] = {}
    stack = list(roots)
    while stack:
        value = stack[-1]
        pending = [s for s in operands(value) if s not in levels]
        if value in levels or not pending:
            if value not in levels:
                below = max((levels[s] for s in operands(value)), default=0)
                levels[value] = below + _is_product(value)
            stack.pop()
        stack.extend(pending)
    return levels


def _is_product(value: IRValue) -> bool:
    multiplies = isinstance(value, IROp) and value.op in ("mul", "mulacc") and value.dtype.is_float
    return multiplies and not any(isinstance(s, IRConst) for s in operands(value))


def _crossing(stores: list[IRBufStore], levels: dict[IRValue, int], level: int) -> IRValue | None:
    """The one computed value up to this level that values beyond it use; None where there are others."""
    used = [s.value for s in stores if levels[s.value] <= level]
    used += [s for value, own in levels.items() if own > level for s in operands(value) if levels[s] <= level]
    found: set[IRValue] = set()
    for value in used:
        if levels[value] and not value.dtype.is_float:
            return None
        if isinstance(value, IRBufLoad) and levels[value]:
            return None
        if isinstance(value, IROp) and value.dtype.is_float:
            found.add(value)
    beyond = any(isinstance(value, IRBufLoad) and own > level for value, own in levels.items())
    return found.pop() if len(found) == 1 and not beyond else None
