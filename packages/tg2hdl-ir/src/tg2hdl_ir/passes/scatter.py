"""Scatter: sums of the terms whose index is that of the output become one pass that adds each term at its index.

tinygrad writes histograms, scatters and gradients of embeddings as comparisons of all indices with all places. Each
place gets its terms in the same order, and all others are neutral, so that every bit stays.
"""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.analysis.axes import analyze_axes
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRCounter,
    IRItem,
    IROp,
    IRRegLoad,
    IRValue,
    KernelIR,
    LoopIR,
    const_int,
    values_below,
)
from tg2hdl_ir.passes.cut_kernel import cut_kernel, cut_places
from tg2hdl_ir.passes.dead_loads import kernel_of
from tg2hdl_ir.passes.depths import number_depths
from tg2hdl_ir.passes.fold import FALSE, TRUE, Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.passes.scan import Reduction, find_reduction

__all__ = ["scatter_forms"]

_FEWEST = 4
"""Places from which on a pass over the terms takes fewer cycles than a sum for each place."""


@ir_pass(
    "scatter",
    "a sum for each place of the terms with its index becomes one pass that adds each term at its index",
    term="read-modify-write (scatter)",
)
def scatter_forms(kernel: KernelIR) -> list[tuple[KernelIR, ...]]:
    """A kernel that clears the sums, one pass over the terms, and the rest; no form where no index chooses terms."""
    found = find_reduction(kernel)
    if found is None or _index(found) is None:
        return []
    parts: tuple[KernelIR, ...] = (kernel,)
    if _only_store(found) is None:
        places = list(cut_places(kernel))
        parts = cut_kernel(kernel, places[-1])[:2] if places else ()
        found = find_reduction(parts[0]) if parts else None
    made = None if found is None else _scattered(parts[0], found)
    return [] if made is None else [(*made, *parts[1:])]


def _only_store(found: Reduction) -> IRBufStore | None:
    """The store of an output that is the sum itself."""
    match [s for s in found.home.epilogue if not isinstance(s, IRRegLoad)]:
        case [IRBufStore(value=IRRegLoad(), gate=None) as store]:
            return store
    return None


def _index(found: Reduction) -> tuple[IRCounter, IRValue] | None:
    """A counter of the outputs, and the value that it is compared with wherever the term depends on it."""
    for loop in reversed(found.outer):
        counter = loop.counter
        assert counter is not None, "only the root has no counter"
        users = [
            value
            for value in values_below((found.term,))
            if isinstance(value, IROp) and any(_is(source, counter) for source in value.srcs)
            if not _is(value, counter)
        ]
        others = {source for value in users for source in value.srcs if not _is(source, counter)}
        if len(others) == 1 and all(value.op in ("eq", "ne") for value in users):
            (index,) = others
            if counter not in values_below((index,)) and not index.dtype.is_float:
                return counter, index
    return None


def _is(value: IRValue, counter: IRCounter) -> bool:
    """Whether a value is a counter, perhaps of another integer type that has all its values."""
    while isinstance(value, IROp) and value.op == "cast" and not value.dtype.is_bool:
        if (
            value.dtype.is_float
            or not isinstance(counter.bound, int)
            or value.dtype.max_value < counter.bound - 1
        ):
            return False
        (value,) = value.srcs
    return value is counter


class _Chosen(Rewriter):
    """Rebuilds the term of an index that is, or is not, that of the output."""

    def __init__(self, counter: IRCounter, *, equal: bool) -> None:
        super().__init__(Folder(), replace=self._decided)
        self._counter = counter
        self._equal = equal

    def _decided(self, node: IROp) -> IRValue | None:
        if node.op in ("eq", "ne") and any(_is(source, self._counter) for source in node.srcs):
            return TRUE if (node.op == "eq") is self._equal else FALSE
        return None


def _scattered(kernel: KernelIR, found: Reduction) -> tuple[KernelIR, KernelIR] | None:
    store, chosen = _only_store(found), _index(found)
    if store is None or chosen is None:
        return None
    counter, index = chosen
    bound = counter.bound
    independent = analyze_axes(kernel).independent
    if not isinstance(bound, int) or bound < _FEWEST or counter.axis not in independent:
        return None
    if not found.keeps(_Chosen(counter, equal=False).value(found.term), initial=False):
        return None
    # The place of a term: the index, where it is one of the outputs.
    adding = _Chosen(counter, equal=True)
    term = adding.value(found.term)
    at, folder = adding.value(index), adding.folder
    if counter in values_below((term, at)):
        return None
    inside = folder.all_of(
        folder.op("lt", TRUE.dtype, const_int(-1, at.dtype), at) if at.dtype.min_value < 0 else None,
        folder.below(at, bound) if at.dtype.max_value >= bound else None,
    )
    placing = Rewriter(folder)
    placing.memo[counter] = at if at.dtype == counter.dtype else folder.op("cast", counter.dtype, at)
    address = placing.value(store.addr)
    before = IRBufLoad(
        store.buf_idx, address, store.dtype, inside, found.initial if inside is not None else None
    )
    loads = [adding.value(s) for s in (*found.home.prologue, *found.loop.items) if isinstance(s, IRBufLoad)]
    assert isinstance(found.update.value, IROp), "checked by find_reduction"
    operands = [before if source is found.carried else term for source in found.update.value.srcs]
    total = folder.op(found.op, found.update.value.dtype, *operands)
    after = IRBufStore(store.buf_idx, address, total, store.dtype, inside)
    adds: tuple[IRItem, ...] = (*(s for s in loads if isinstance(s, IRBufLoad)), before, after)
    for loop in reversed([found.loop, *(each for each in found.outer if each.counter is not counter)]):
        adds = (LoopIR.from_items(adds, counter=loop.counter, axis_type=loop.axis_type),)
    cleared = LoopIR.from_items((_cleared(found, store),))
    return (
        kernel_of(kernel, cleared, f"{kernel.name}_cleared"),
        kernel_of(kernel, number_depths(LoopIR.from_items(adds)), f"{kernel.name}_scatter"),
    )


def _cleared(found: Reduction, store: IRBufStore) -> LoopIR:
    """The loops of the outputs, which set each to the initial value."""
    items: tuple[IRItem, ...] = (replace(store, value=found.initial),)
    for loop in reversed(found.outer):
        items = (LoopIR.from_items(items, counter=loop.counter, axis_type=loop.axis_type),)
    (cleared,) = items
    assert isinstance(cleared, LoopIR), "there are outputs"
    return cleared
