"""The plan of a kernel that runs at the same time as another one, at its pace."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from tg2hdl_ir import BudgetError, DType, KernelIR
from tg2hdl_ir.passes.follow import with_idle_steps
from tg2hdl_ir.passes.interleave import interleave
from tg2hdl_lower.memory.layout import Layout
from tg2hdl_lower.memory.use import MemoryRole
from tg2hdl_lower.options import LowerOptions
from tg2hdl_lower.plan.hardware_plan import HardwarePlan
from tg2hdl_lower.planning import Planning

__all__ = ["plan_follower"]


def plan_follower(
    kernel: KernelIR,
    options: LowerOptions,
    level: int,
    pace: int,
    tile: tuple[int, int] | None = None,
    *,
    lanes: dict[int, int],
    layouts: dict[int, Layout],
    storage: dict[int, DType],
    shared: Collection[str] = (),
    roles: Mapping[int, MemoryRole] | None = None,
) -> HardwarePlan | None:
    """Plan a kernel that takes so many cycles for each word of its input.

    Idle steps come before those of a word, so that the last word is done as soon as with none.

    Parameters
    ----------
    kernel : KernelIR
        Nested loops over the words, then over the elements of a word; see `tg2hdl_ir.passes.follow.in_order`.
    options : LowerOptions
    level : int
        Loops over the words.
    pace : int
        Cycles.
    tile : (int, int), optional
        Axis and outputs to interleave under the reductions of the kernel, whose innermost loop then is over the
        elements of a word.
    lanes, layouts, storage, shared, roles
        As in `plan_kernel`.

    Returns
    -------
    HardwarePlan or None
        None where its steps cannot have that pace.
    """
    planning, flat = Planning.of(kernel, options, lanes, layouts, storage, shared, roles)
    if tile is not None:
        flat = interleave(flat, planning.info, *tile)
        level = sum(loop.counter is not None for loop in flat.loop_tree.walk()) - 1
    bounds = [loop.bound for loop in flat.loop_tree.walk() if loop.counter is not None]
    steps = math.prod(bound for bound in bounds[level:] if isinstance(bound, int))
    try:
        plan = planning.finished(flat, pace if steps == 1 else 1)
        idle = pace // plan.ii - steps
        if pace % plan.ii or idle < 0:
            return None
        if idle:
            interval = plan.ii
            plan = planning.finished(with_idle_steps(flat, level, idle), interval)
            if plan.ii != interval:
                return None
    except BudgetError:
        return None
    return replace(planning.marked(plan), follows=True)
