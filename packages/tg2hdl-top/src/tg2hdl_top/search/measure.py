"""Costs of programs, as planned."""

from __future__ import annotations

from collections.abc import Sequence

from tg2hdl_ir.errors import BudgetError
from tg2hdl_ir.program import ProgramIR
from tg2hdl_lower import HardwarePlan
from tg2hdl_lower.decisions import Cost
from tg2hdl_lower.plan.operations import UnitOp
from tg2hdl_top.design_program import plan_memories, sharing_of
from tg2hdl_top.element_types import element_types
from tg2hdl_top.lane_choice import LaneChooser
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.placement import place_program
from tg2hdl_top.roles import buffer_roles
from tg2hdl_top.sequencer import sequencer_named

__all__ = ["cost_of", "longest", "overlapped_cost", "planned_cost", "step_cycles"]


def longest(plans: Sequence[HardwarePlan]) -> int:
    """Cycles of all kernels one after the other, with the largest values of their variables."""
    return sum(plan.cycles({v.name: v.high for v in plan.kernel.variables}) for plan in plans)


def cost_of(program: ProgramIR, plans: Sequence[HardwarePlan], cycles: int | None = None) -> Cost:
    """Cost of planned calls; one after the other unless `cycles` is given."""
    bits: dict[int, int] = {}
    for call, plan in zip(program.calls, plans, strict=True):
        for slot, number in call.slots.items():
            layout = plan.layouts[slot]
            bits[number] = layout.words * layout.lanes * plan.storage[slot].bit_width
    return Cost(
        longest(plans) if cycles is None else cycles,
        max((plan.multipliers for plan in plans), default=0),
        sum(len(plan.all(UnitOp)) for plan in plans),
        sum(bits.values()),
    )


def planned_cost(program: ProgramIR, options: CompileOptions) -> Cost | None:
    """Cost of the kernels one after the other; None where one exceeds the budget of multipliers."""
    try:
        return cost_of(program, place_program(program, options))
    except BudgetError:
        return None


def overlapped_cost(program: ProgramIR, options: CompileOptions) -> tuple[int, Cost] | None:
    """Cycles of the kernels one after the other, and the cost as the sequencer starts them; None as `planned_cost`."""
    try:
        plans = place_program(program, options)
    except BudgetError:
        return None
    serial = longest(plans)
    memories = plan_memories(program, options, plans)
    found = sequencer_named(options.schedule).arrange(
        options.schedule, plans, memories, sharing_of(plans, options)
    )
    return serial, cost_of(program, plans, found.plan.latency or serial)


def step_cycles(program: ProgramIR, options: CompileOptions) -> list[int]:
    """Cycles of the steps of each kernel, with the lanes that it would have without the others."""
    roles = buffer_roles(program, options)
    storage = element_types(program, roles)
    found = []
    for call in program.calls:
        narrow = {idx: storage[n] for idx, n in call.slots.items()}
        mine = {idx: roles[n] for idx, n in call.slots.items()}
        found.append(LaneChooser(call.kernel, {}, narrow, mine, options, sparing=False).choose().cycles)
    return found
