"""A few iterations of the outer loops of a kernel: lanes and interleaved outputs make it slow to evaluate."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IRItem,
    IROp,
    IRRegLoad,
    KernelIR,
    LoopIR,
    values_below,
)
from tg2hdl_ir.passes.dead_loads import without_dead_loads
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["sliced", "stores_of"]

KEPT = 3
"""Iterations that are kept of the innermost one of these loops: the first two and the last."""

ENDS = 2
"""Iterations that are kept of the others: the first and the last."""


def sliced(kernel: KernelIR) -> KernelIR | None:
    """The kernel with few iterations of the loops whose counter is in the address of every store.

    It writes some elements of the results, with the values that the kernel gives them where no iteration reads what
    another one wrote.  None where no loop becomes shorter.
    """
    stores = [s for s in kernel.loop_tree.statements() if isinstance(s, IRBufStore)]
    around = [{v for v in values_below([s.addr]) if isinstance(v, IRCounter)} for s in stores]
    common = set.intersection(*around) if around else set()
    short = [c for c in common if isinstance(c.bound, int) and c.bound > KEPT]
    if not short:
        return None
    rewriter = Rewriter()
    made: dict[IRCounter, IRCounter] = {}
    deepest = max(counter.depth for counter in short)
    for counter in short:
        assert isinstance(counter.bound, int), "it is short"
        kept = KEPT if counter.depth == deepest else ENDS
        made[counter] = fewer = replace(counter, bound=kept)
        last = IROp("eq", DType.BOOL, (fewer, IRConst(kept - 1, counter.dtype)))
        number = IRConst(counter.bound - 1, counter.dtype)
        rewriter.memo[counter] = IROp("where", counter.dtype, (last, number, fewer))

    def rebuilt(loop: LoopIR) -> LoopIR:
        items: list[IRItem] = [
            rebuilt(item) if isinstance(item, LoopIR) else rewriter.statement(item) for item in loop.items
        ]
        counter = None if loop.counter is None else made.get(loop.counter, loop.counter)
        return LoopIR.from_items(tuple(items), counter=counter, axis_type=loop.axis_type)

    return replace(kernel, loop_tree=rebuilt(kernel.loop_tree))


def stores_of(kernel: KernelIR) -> KernelIR | None:
    """The stores of a kernel with zeros for their values: where it writes is quick to evaluate.

    None where registers decide where that is.
    """
    stores = [s for s in kernel.loop_tree.statements() if isinstance(s, IRBufStore)]
    places = [v for s in stores for v in (s.addr, s.gate) if v is not None]
    if any(isinstance(value, IRRegLoad) for value in values_below(places)):
        return None

    def rebuilt(loop: LoopIR) -> LoopIR:
        items: list[IRItem] = []
        for item in loop.items:
            if isinstance(item, LoopIR):
                items.append(rebuilt(item))
            elif isinstance(item, IRBufStore):
                items.append(replace(item, value=IRConst(0, item.dtype)))
            elif isinstance(item, IRBufLoad):
                items.append(item)
        return LoopIR.from_items(tuple(items), counter=loop.counter, axis_type=loop.axis_type)

    return replace(kernel, loop_tree=without_dead_loads(rebuilt(kernel.loop_tree)), registers=())
