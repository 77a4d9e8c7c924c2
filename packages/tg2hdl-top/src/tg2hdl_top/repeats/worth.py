"""Whether cores that run several times cost too many cycles: their buffers must agree on layouts and memories."""

from __future__ import annotations

from collections.abc import Sequence

from tg2hdl_lower import HardwarePlan
from tg2hdl_lower.decisions import most_cycles
from tg2hdl_top.lane_choice import LaneChooser
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.repeats.find import Repeats
from tg2hdl_top.roles import buffer_roles

__all__ = ["near_the_fewest"]


def near_the_fewest(plans: Sequence[HardwarePlan], repeats: Repeats, options: CompileOptions) -> bool:
    """Whether the steps take few more cycles than each kernel would take that shares no buffer."""
    planned = fewest = 0
    free: dict[int, int] = {}
    roles = repeats.slot_roles(buffer_roles(repeats.program, options), arrays=False)
    for core, plan, call in zip(repeats.cores, plans, repeats.program.calls, strict=True):
        if core not in free:
            storage = {idx: repeats.storage[n] for idx, n in call.slots.items()}
            chooser = LaneChooser(call.kernel, {}, storage, roles[core], options, sparing=False)
            free[core] = chooser.choose().cycles
        fewest += free[core]
        planned += plan.steps(_largest(plan)) * plan.ii
    return planned <= most_cycles("shared core", fewest)


def _largest(plan: HardwarePlan) -> dict[str, int]:
    return {v.name: v.high for v in plan.kernel.variables}
