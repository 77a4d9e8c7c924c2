"""More multipliers are never slower: the design is the best one of the budget and of smaller ones, as scheduled.

Wide lanes may stall on an accumulator or a memory port, or need a core where more lanes would overlap; which budget is
affected is only known when the whole timeline is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from math import inf

from tg2hdl_ir import BudgetError, CapacityError, Interval, KernelIR, ProgramIR
from tg2hdl_ir.passes.pack_products import packing_axes
from tg2hdl_lower import Alternative
from tg2hdl_lower.decisions import Trials
from tg2hdl_lower.lanes.candidates import executed_products, leaf_multiplications
from tg2hdl_lower.memory.memories import element_ranges
from tg2hdl_lower.plan.operations import DesignProduct
from tg2hdl_top.design import Design
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.search.form import called
from tg2hdl_top.search.forms import forms_with_fewer_products
from tg2hdl_top.search.measure import design_cost, step_cycles

__all__ = ["best_of_budgets", "smaller_budgets"]


HIDDEN = 2
"""Kernels without products overlap such that at most one in this many of their steps counts; no design came near it."""


NEAR = 0.8
"""Part of a budget from which on another one has nearly the same lanes."""


def smaller_budgets(multipliers: int) -> list[int]:
    """Budgets of 1, 2, 3, 4, 6, 8, 12, 16, 24, ... below one and not near it, the largest first."""
    powers = [1 << n for n in range(multipliers.bit_length())]
    return sorted({n for p in powers for n in (p, p + p // 2) if n <= NEAR * multipliers}, reverse=True)


def best_of_budgets(options: CompileOptions, made: Callable[[CompileOptions], Design]) -> Design:
    """The design of the budget, or of a smaller one where that takes fewer cycles.

    A smaller budget is not planned where its steps would already take as many cycles: most budgets of a program whose
    multipliers are busy.

    Parameters
    ----------
    made : callable
        The design for some options.
    """
    first = made(options)
    if not options.chooses_lanes or options.budget is None:
        return first
    least = _least(first)
    trials = Trials(
        "multipliers",
        first.program.name,
        "smaller budget",
        Alternative(f"multipliers={options.multipliers}", design_cost(first)),
        first,
        prefer=options.prefer,
        scope="program",
    )
    budgets = smaller_budgets(options.budget)
    for budget in budgets:
        name = f"multipliers={budget}"
        if least >= budget * (trials.most + 1):
            trials.offer(
                Alternative(f"{name} or fewer", None, f"at least {least / budget:,.0f} cycles"), None
            )
            break
        fewer = replace(options, multipliers=budget)
        if (estimate := _estimate(first, fewer)) >= trials.most + 1:
            trials.offer(Alternative(name, None, f"its steps take about {estimate:,.0f} cycles"), None)
            continue
        try:
            design = made(fewer)
        except (BudgetError, CapacityError) as error:
            trials.offer(Alternative(name, None, error.message), None)
        else:
            trials.offer(Alternative(name, design_cost(design)), design)
    if not budgets:
        return first
    best = trials.best
    decision = trials.decision("fewer lanes stall less", "no smaller budget takes fewer cycles")
    return replace(best, options=options, decisions=(*best.decisions, decision))


def _least(design: Design) -> float:
    """Least cycles that the program would take with one multiplier and one lane, in the form with the fewest."""
    loads = []
    for kernel, plan in zip(design.sources, design.kernels, strict=True):
        ranges = element_ranges(plan.storage)
        found = [_load(form, ranges) for form in _forms(kernel)]
        loads.append((min(load[0] for load in found), min(load[1] for load in found)))
    # Kernels with products of other formats may overlap, as those with none.
    kinds = {n.key for plan in design.kernels for n in plan.all(DesignProduct)}
    products, steps = [load[0] for load in loads], [load[1] for load in loads]
    total = sum(products) / max(1, len(kinds)) if design.options.share_multipliers else max(products)
    return max(total, *steps, sum(steps) / HIDDEN)


def _forms(kernel: KernelIR) -> list[tuple[KernelIR, ...]]:
    """A kernel as the search left it, and its forms for other budgets."""
    return [(kernel,), *forms_with_fewer_products(kernel)]


def _load(form: tuple[KernelIR, ...], ranges: Mapping[int, Interval]) -> tuple[float, float]:
    """Products and steps of kernels with one lane; half of them where two products may share a multiplier."""
    products, steps = 0.0, 0.0
    for kernel in form:
        shared = 2 if packing_axes(kernel, ranges) else 1
        products += executed_products(kernel) / shared
        steps += sum(leaf.steps for leaf in leaf_multiplications(kernel)) / shared
    return products, steps


def _estimate(design: Design, options: CompileOptions) -> float:
    """Cycles of the steps with other options, in the form with the fewest: those of products follow one another."""
    forms = [_forms(kernel) for kernel in design.sources]
    found = [inf] * len(forms)
    for number in range(max(map(len, forms))):
        taken = [form[min(number, len(form) - 1)] for form in forms]
        for call, cycles in enumerate(_step_cycles(design.program, taken, options)):
            found[call] = min(found[call], cycles)
    return sum(found) if options.share_multipliers else max(found)


def _step_cycles(
    program: ProgramIR, forms: list[tuple[KernelIR, ...]], options: CompileOptions
) -> Iterator[float]:
    """Cycles of the steps of each call in a form."""
    buffers = list(program.buffers)
    calls = [called(call, form, buffers, "form") for call, form in zip(program.calls, forms, strict=True)]
    whole = replace(program, buffers=tuple(buffers), calls=tuple(chain.from_iterable(calls)))
    steps = iter(step_cycles(whole, options))
    for form in forms:
        mine = [(kernel, next(steps)) for kernel in form]
        if options.share_multipliers:
            yield sum(cycles if executed_products(kernel) else cycles / HIDDEN for kernel, cycles in mine)
        else:
            yield max(cycles for _, cycles in mine)
