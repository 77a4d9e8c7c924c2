"""Bias: a value that is added to a complete float sum becomes its initial value.

The bias is then added first instead of last, which changes rounding and needs ``float_order="relaxed"``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRItem,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
    loads_used_by,
    operands,
)
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.tree import values_below

__all__ = ["start_at_bias"]


@ir_pass(
    "start-at-bias", "float sums start at the value that is added to them afterwards", term="reassociation"
)
def start_at_bias(kernel: KernelIR) -> KernelIR:
    """Rewrite ``r = 0; for ...: r = r + x; y = r + bias`` to ``r = bias; for ...: r = r + x; y = r``.

    The bias is a constant or an element of a buffer that the kernel does not write.

    Parameters
    ----------
    kernel : KernelIR
        Canonical.
    """
    rewriter = Rewriter()
    stored = {s.buf_idx for s in kernel.loop_tree.statements() if isinstance(s, IRBufStore)}
    scalars = {r.idx for r in kernel.registers if r.size == 1 and r.dtype.is_float}
    accesses = _accesses(kernel.loop_tree)

    def started(level: LoopIR) -> LoopIR:
        items = tuple(started(item) if isinstance(item, LoopIR) else item for item in level.items)
        level = LoopIR.from_items(items, counter=level.counter, axis_type=level.axis_type)
        here = _accesses(level)
        for start in [s for s in level.prologue if isinstance(s, IRRegStore) and s.reg in scalars]:
            if here[start.reg] == accesses[start.reg]:
                level = _biased(level, start, stored, rewriter) or level
        return level

    tree = started(kernel.loop_tree)
    return replace(kernel, loop_tree=rewriter.loop(tree)) if rewriter.memo else kernel


def _biased(level: LoopIR, start: IRRegStore, stored: set[int], rewriter: Rewriter) -> LoopIR | None:
    """The level with the sum of a register started at its bias; None where it has none."""
    if not _is_sum(level, start):
        return None
    results = [s for s in level.epilogue if isinstance(s, IRRegLoad) and s.reg == start.reg]
    uses = _uses(level)
    if len(results) != 1 or uses[results[0]] != 1:
        return None
    result = results[0]
    added = next((v for v in _values(level.epilogue) if result in operands(v)), None)
    if not isinstance(added, IROp) or added.op != "add" or added.dtype != result.dtype:
        return None
    bias = added.srcs[1] if added.srcs[0] is result else added.srcs[0]
    if not isinstance(bias, IRConst | IRBufLoad):
        return None
    loads = loads_used_by((bias,))
    if any(isinstance(load, IRRegLoad) or load.buf_idx in stored for load in loads):
        return None
    rewriter.memo[result] = rewriter.memo[added] = result
    moved = set(loads)
    items = (
        *(s for s in level.prologue if s is not start),
        *(s for s in level.epilogue if s in moved),
        replace(start, value=bias),
        *level.body,
        *(s for s in level.epilogue if s not in moved),
    )
    return LoopIR.from_items(items, counter=level.counter, axis_type=level.axis_type)


def _is_sum(level: LoopIR, start: IRRegStore) -> bool:
    """Whether a register starts at zero, and all that happens to it before the epilogue are additions."""
    if start.gate is not None or not isinstance(start.value, IRConst):
        return False
    if start.value.dtype.const_to_bits(start.value.value) != 0:
        return False
    before, inside, after = (
        [s for s in _statements(items) if isinstance(s, IRRegStore | IRRegLoad) and s.reg == start.reg]
        for items in (level.prologue, level.body, level.epilogue)
    )
    if before != [start] or any(isinstance(s, IRRegStore) for s in after):
        return False
    changes = [s for s in inside if isinstance(s, IRRegStore)]
    carried = [s for s in inside if isinstance(s, IRRegLoad)]
    uses = _uses(level)
    return all(_adds_to(s, carried) for s in changes) and all(uses[load] == 1 for load in carried)


def _accesses(level: LoopIR) -> Counter[int]:
    """How many statements read or write each register."""
    return Counter(s.reg for s in level.statements() if isinstance(s, IRRegLoad | IRRegStore))


def _adds_to(store: IRRegStore, carried: list[IRRegLoad]) -> bool:
    """Whether a store adds something to a value of its register."""
    if store.gate is not None or store.index is not None or not isinstance(store.value, IROp):
        return False
    return store.value.op == "add" and sum(any(s is load for load in carried) for s in store.value.srcs) == 1


def _statements(items: tuple[IRItem, ...]) -> Iterator[IRStatement]:
    for item in items:
        yield from item.statements() if isinstance(item, LoopIR) else (item,)


def _values(items: tuple[IRItem, ...]) -> list[IRValue]:
    """All values of statements, each once."""
    return list(values_below(tuple(v for s in _statements(items) for v in operands(s))))


def _uses(level: LoopIR) -> Counter[IRValue]:
    """How many values and stores of a level read each value."""
    statements = list(level.statements())
    stores = [s for s in statements if not isinstance(s, IRBufLoad | IRRegLoad)]
    return Counter(s for node in (*stores, *_values(level.items)) for s in operands(node))
