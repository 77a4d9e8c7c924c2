"""Sums of int8 products in a kernel: split off, as stages that the matrix unit and vectors execute in turn.

Only products computed in int32 are taken: an int8 product, also with `dtype=int32`, wraps before it is added.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from math import prod

from tg2hdl_ir import (
    AffineAnalysis,
    BufferMeta,
    DType,
    IRBufLoad,
    IRBufStore,
    IRCounter,
    IRItem,
    IRRegLoad,
    IRRegStore,
    IRValue,
    KernelIR,
    LoopIR,
    RangeAnalysis,
    loads_used_by,
    verify,
)
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.device.copies import GATHERED
from tg2hdl_tpu.device.plans import BatchProduct, SumPlanner
from tg2hdl_tpu.device.shuffle import Shuffle
from tg2hdl_tpu.device.sums import SumOfProducts, find_sum, needs, starts_at_zero

__all__ = ["Stages", "split_products"]

#: Cycles for a product on the vector unit at least.
_ON_VECTORS = 2.5


@dataclass(frozen=True)
class Stages:
    """The parts of a kernel.

    Parameters
    ----------
    each : tuple of KernelIR, Shuffle or BatchProduct
        Program that runs each time.
    kept : tuple of KernelIR or Shuffle
        Copies of tensors that do not change, which are made before.
    scratch : tuple of BufferMeta
        The buffers between them.
    factors : frozenset of int
        Slots whose copies can be kept.
    """

    each: tuple[KernelIR | Shuffle | BatchProduct, ...]
    kept: tuple[KernelIR | Shuffle, ...] = ()
    scratch: tuple[BufferMeta, ...] = ()
    factors: frozenset[int] = frozenset()


def split_products(
    kernel: KernelIR,
    bounds: Mapping[int, int],
    config: Config,
    steady: Collection[int] = (),
    shared: Collection[int] = (),
    on_vectors: Callable[[], float | None] = lambda: None,
) -> Stages:
    """Return the stages of a kernel.

    Parameters
    ----------
    kernel : KernelIR
    bounds : mapping of int to int
        Trip count of each loop by axis.
    config : Config
    steady : collection of int
        Slots of tensors that do not change from run to run.
    shared : collection of int
        Slots of outputs whose last row has elements of others.
    on_vectors : callable
        Cycles of the kernel without products, where they are known.
    """
    splitter = _Splitter(kernel, bounds, config, steady, on_vectors)
    tree = splitter.loop(kernel.loop_tree, ())
    factors = frozenset(splitter.factors)
    if not splitter.stages:
        return Stages((kernel,), factors=factors)
    scratch, kept = tuple(splitter.planner.scratch), tuple(splitter.kept)
    rest = replace(kernel, loop_tree=tree, buffers=(*kernel.buffers, *scratch))
    if not kernel.variables:  # with them, the result has the size that their present values give it
        verify(rest)
    last = splitter.stages[-1]
    assert isinstance(last, BatchProduct)
    slot = _stored_as_it_is(rest, last, splitter.planner.affine)
    part = last.rows * last.result.stride % config.lanes
    if slot is not None and not (part and slot in shared):
        unused = last.result.slot
        last = replace(last, result=replace(last.result, slot=slot))
        scratch = tuple(m for m in scratch if m.idx != unused)
        return Stages((*splitter.stages[:-1], last), kept, scratch, factors)
    return Stages((*splitter.stages, rest), kept, scratch, factors)


def _stored_as_it_is(rest: KernelIR, product: BatchProduct, affine: AffineAnalysis) -> int | None:
    """Slot of the output, where the rest of a kernel only copies the product there."""
    statements = list(rest.loop_tree.statements())
    loads = [s for s in statements if isinstance(s, IRBufLoad)]
    stores = [s for s in statements if isinstance(s, IRBufStore)]
    sets = [s for s in statements if isinstance(s, IRRegStore)]
    if len(loads) != 1 or len(stores) != 1 or loads[0].buf_idx != product.result.slot:
        return None
    (load,), (store,) = loads, stores
    if any(s.value is not load for s in sets[1:]) or sets[-1].value is not load:
        return None
    whole = rest.buffer(load.buf_idx).depth == rest.buffer(store.buf_idx).depth
    if store.gate is not None or not isinstance(store.value, IRRegLoad) or store.dtype != DType.INT32:
        return None
    if not whole or product.columns != product.result.stride or affine.of(load.addr) != affine.of(store.addr):
        return None
    return store.buf_idx


class _Splitter:
    def __init__(
        self,
        kernel: KernelIR,
        bounds: Mapping[int, int],
        config: Config,
        steady: Collection[int],
        on_vectors: Callable[[], float | None],
    ) -> None:
        self.bounds, self.on_vectors = bounds, on_vectors
        self.planner, self.ranges = SumPlanner(kernel, bounds, config, steady), RangeAnalysis()
        self.kept: list[KernelIR | Shuffle] = []
        self.factors: set[int] = set()
        self.stages: list[KernelIR | Shuffle | BatchProduct] = []
        self.written = {s.buf_idx for s in kernel.loop_tree.statements() if isinstance(s, IRBufStore)}

    def loop(self, loop: LoopIR, above: tuple[IRCounter, ...]) -> LoopIR:
        """The loop without sums that became products."""
        if loop.counter is not None:
            above = (*above, loop.counter)
        items: list[IRItem] = []
        for item in loop.items:
            if not isinstance(item, LoopIR):
                items.append(item)
            elif item.axis_type == "loop":
                items.append(self.loop(item, above))
            else:
                items += self.reduction(item, above, items) or [item]
        return LoopIR.from_items(tuple(items), counter=loop.counter, axis_type=loop.axis_type)

    def reduction(
        self, loop: LoopIR, above: tuple[IRCounter, ...], before: list[IRItem]
    ) -> list[IRItem] | None:
        found = find_sum(loop)
        if found is None or not all(self.is_int8(f) for f in found.factors):
            return None
        if not starts_at_zero(found.reg, before):
            return None
        read = [needs(f) for f in found.factors]
        if any(n is None or n[1] & self.written for n in read):
            return None
        counters = [n[0] for n in read if n is not None]
        known = {*above, *found.counters}
        if any(self.bounds[c.axis] < 1 for c in known) or not counters[0] | counters[1] <= known:
            return None
        self.factors.update(*(n[1] for n in read if n is not None))
        plans = [self.planner.plan(found, above, counters, swapped) for swapped in (False, True)]
        plan = min((p for p in plans if p is not None), key=lambda p: p.cost, default=None)
        if plan is None or plan.cost > self.cost_on_vectors(found, above):
            return None
        self.stages += [*plan.copies, plan.product]
        self.kept += plan.kept
        self.planner.scratch += plan.scratch
        load = IRBufLoad(plan.product.result.slot, plan.address, DType.INT32)
        return [load, IRRegStore(load, found.reg)]

    def cost_on_vectors(self, found: SumOfProducts, above: tuple[IRCounter, ...]) -> float:
        known = self.on_vectors()
        if known is not None:
            return known
        total = prod(self.bounds[c.axis] for c in (*above, *found.counters))
        inner = next((c for c in reversed(above) if self.bounds[c.axis] > 1), None)
        forms = [
            self.planner.affine.of(load.addr)
            for load in loads_used_by(found.factors)
            if isinstance(load, IRBufLoad)
        ]
        near = inner is None or all(f is not None and abs(f.coefficient(inner)) <= 4 for f in forms)
        return total * (_ON_VECTORS if near else _ON_VECTORS + GATHERED)

    def is_int8(self, value: IRValue) -> bool:
        low, high = self.ranges.of(value)
        return value.dtype == DType.INT32 and low >= -128 and high <= 127
