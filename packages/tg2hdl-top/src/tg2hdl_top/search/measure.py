"""Costs of programs, as planned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from tg2hdl_ir import BudgetError, ProgramIR, registry
from tg2hdl_lower import Cost, HardwarePlan
from tg2hdl_lower.plan.operations import UnitOp
from tg2hdl_lower.plan.resources import pools
from tg2hdl_top.area import estimated_luts
from tg2hdl_top.design import Design
from tg2hdl_top.design_program import plan_memories, sharing_of
from tg2hdl_top.element_types import element_types
from tg2hdl_top.lane_choice import LaneChooser
from tg2hdl_top.memory_blocks import memory_blocks, planned_blocks
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.placement import place_program
from tg2hdl_top.roles import buffer_roles
from tg2hdl_top.sequencer import sequencer_named

__all__ = [
    "Estimator",
    "cost_of",
    "design_cost",
    "estimating",
    "estimator_of",
    "longest",
    "multiplier_blocks",
    "overlapped_cost",
    "planned_area",
    "planned_cost",
    "planned_figures",
    "step_cycles",
]

Estimator: TypeAlias = Callable[[Design], tuple[int, float | None] | None]
"""LUTs and clock (MHz) of a design; None where one is not known."""

_estimator: ContextVar[Estimator | None] = ContextVar("estimator", default=None)


def planned_area(design: Design) -> tuple[int, float | None]:
    """LUTs of a design from its plans; the clock is not estimated."""
    return estimated_luts(design), None


def estimator_of(options: CompileOptions) -> Estimator:
    """Estimator of the family that designs are compiled for; `planned_area` for a family without one."""
    family = registry().family(options.target)
    if family is None or family.estimator is None:
        return planned_area
    return partial(registry().call, family, "estimator")


@contextmanager
def estimating(estimator: Estimator | None) -> Iterator[None]:
    """Estimate LUTs and clock of each design that a search compares inside the context.

    Parameters
    ----------
    estimator : callable, optional
        None leaves that of a context around this one.
    """
    token = _estimator.set(estimator or _estimator.get())
    try:
        yield
    finally:
        _estimator.reset(token)


def longest(plans: Sequence[HardwarePlan]) -> int:
    """Cycles of all kernels one after the other, with the largest values of their variables."""
    return sum(plan.cycles({v.name: v.high for v in plan.kernel.variables}) for plan in plans)


def cost_of(program: ProgramIR, plans: Sequence[HardwarePlan], cycles: int | None = None) -> Cost:
    """Cost of planned calls; one after the other unless `cycles` is given.

    Parameters
    ----------
    program : ProgramIR
    plans : sequence of HardwarePlan
        Of the calls.
    cycles : int, optional
        Of the whole program, if it is known.
    """
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


def design_cost(design: Design, estimator: Estimator | None = None) -> Cost:
    """Cost of a design: its whole timeline with the largest run-time variables, and its block RAMs.

    Parameters
    ----------
    estimator : callable, optional
        For its LUTs and clock; by default that of `estimating`.
    """
    times = design.timeline({v.name: v.high for v in design.variables})
    estimator = estimator or _estimator.get()
    luts, fmax = (None if estimator is None else estimator(design)) or (None, None)
    return replace(
        cost_of(design.program, design.kernels, times.latency),
        multipliers=multiplier_blocks(design.core_plans, design.options),
        interval=times.interval if times.interval != times.latency else 0,
        block_rams=sum(memory_blocks(design).values()),
        luts=luts,
        fmax=fmax,
    )


def multiplier_blocks(plans: Sequence[HardwarePlan], options: CompileOptions) -> int:
    """Multipliers of 18 x 18 bits of all kernels, and products inside kernels, each of which counts as one.

    Kernels share the former unless the options say otherwise.

    Parameters
    ----------
    plans : sequence of HardwarePlan
        By kernel.
    options : CompileOptions
    """
    groups = [plans] if options.share_multipliers else [[plan] for plan in plans]
    shared = sum(pool.resource.blocks for group in groups for pool in pools(plan.products for plan in group))
    return shared + sum(plan.multipliers - len(plan.products) for plan in plans)


def planned_figures(
    program: ProgramIR, plans: Sequence[HardwarePlan], options: CompileOptions, cycles: int | None = None
) -> Cost:
    """Cost of planned calls, with their block RAMs where the user prefers few.

    Parameters
    ----------
    cycles : int, optional
        As of `cost_of`.
    """
    cost = cost_of(program, plans, cycles)
    if options.prefer != "block-ram":
        return cost
    memories = plan_memories(program, options, plans)
    return replace(cost, block_rams=sum(planned_blocks(memories, plans, options.family).values()))


def planned_cost(program: ProgramIR, options: CompileOptions) -> Cost | None:
    """Cost of the kernels one after the other; None where one exceeds the budget of multipliers.

    Parameters
    ----------
    program : ProgramIR
        With canonical kernels.
    options : CompileOptions
    """
    try:
        return planned_figures(program, place_program(program, options), options)
    except BudgetError:
        return None


def overlapped_cost(program: ProgramIR, options: CompileOptions) -> tuple[int, Cost] | None:
    """Cycles of the kernels one after the other, and the cost as the sequencer starts them; None as `planned_cost`.

    Parameters
    ----------
    program : ProgramIR
        With canonical kernels.
    options : CompileOptions
    """
    try:
        plans = place_program(program, options)
    except BudgetError:
        return None
    serial = longest(plans)
    memories = plan_memories(program, options, plans)
    found = sequencer_named(options.schedule).arrange(
        options.schedule, plans, memories, sharing_of(plans, options)
    )
    return serial, planned_figures(program, plans, options, found.plan.latency or serial)


def step_cycles(program: ProgramIR, options: CompileOptions) -> list[int]:
    """Cycles of the steps of each kernel, with the lanes that it would have without the others.

    Parameters
    ----------
    program : ProgramIR
        With canonical kernels.
    options : CompileOptions
    """
    roles = buffer_roles(program, options)
    storage = element_types(program, roles)
    found = []
    for call in program.calls:
        narrow = {idx: storage[n] for idx, n in call.slots.items()}
        mine = {idx: roles[n] for idx, n in call.slots.items()}
        found.append(LaneChooser(call.kernel, {}, narrow, mine, options, sparing=False).choose().cycles)
    return found
