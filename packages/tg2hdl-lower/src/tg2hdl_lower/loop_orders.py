"""Other orders of the same steps, which may take longer by themselves but suit kernels that run at the same time.

A kernel whose reductions are innermost needs its whole input for the first result; with outputs interleaved inside a
reduction it reads its input once.  The interleaving also decides which of its results are ready first.
A fast consumer starts late, and then all of its results are late; at the rate of its producer it starts early.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import accumulate

from tg2hdl_ir import BudgetError, DType, KernelIR
from tg2hdl_ir.passes.interleave import interleave
from tg2hdl_lower.lanes.interleavings import Tiles, independent_axes, interleavings
from tg2hdl_lower.memory.layout import Layout
from tg2hdl_lower.memory.use import MemoryRole
from tg2hdl_lower.options import LowerOptions
from tg2hdl_lower.plan.hardware_plan import HardwarePlan
from tg2hdl_lower.planning import Planning

__all__ = ["plan_orders"]

MAX_INTERLEAVED = 1024
"""Interleaved accumulators that a lane may have."""


def plan_orders(
    kernel: KernelIR,
    options: LowerOptions,
    spans: Collection[int],
    *,
    lanes: dict[int, int] | None = None,
    layouts: dict[int, Layout] | None = None,
    storage: dict[int, DType] | None = None,
    shared: Collection[str] = (),
    roles: Mapping[int, MemoryRole] | None = None,
) -> Iterator[HardwarePlan]:
    """Plans with other interleaving, and without interleaving at the initiation intervals of slower kernels.

    Parameters
    ----------
    kernel : KernelIR
    options : LowerOptions
    spans : collection of int
        Cycles of kernels that this one may keep pace with.
    lanes, layouts, storage, shared, roles
        As in `plan_kernel`.
    """
    planning, flat = Planning.of(kernel, options, lanes, layouts, storage, shared, roles)
    if kernel.variables:
        return
    alone = planning.finished(flat)
    yield planning.marked(alone)
    steps = alone.steps()
    for interval in sorted({max(1, span // steps) for span in spans}):
        if alone.ii < interval <= options.max_ii:
            yield planning.marked(planning.finished(flat, interval))
    for tiles in _tiles(flat, planning, alone.ii):
        interleaved = flat
        for axis, tile in tiles:
            interleaved = interleave(interleaved, planning.info, axis, tile)
        try:
            yield planning.marked(planning.finished(interleaved))
        except BudgetError:
            # The kernel's own plan remains.
            continue


def _tiles(flat: KernelIR, planning: Planning, interval: int) -> list[Tiles]:
    """All of an axis or of several neighbours, and tiles that just hide the latency of a recurrence."""
    axes = independent_axes(flat, planning.info)
    found: dict[Tiles, None] = {}
    if interval > 1 and planning.info.floats:
        for distance in (interval, interval + 1):
            found |= dict.fromkeys(interleavings(flat, planning.info, distance))
        found |= {
            ((axis, tile),): None for axis, bound in axes for tile in (interval, interval + 1) if tile < bound
        }
    for first in range(len(axes)):
        for some in accumulate(((entry,) for entry in axes[first:]), lambda a, b: (*a, *b)):
            size = 1
            for _, bound in some:
                size *= bound
            if size <= MAX_INTERLEAVED:
                found[some] = None
    return list(found)
