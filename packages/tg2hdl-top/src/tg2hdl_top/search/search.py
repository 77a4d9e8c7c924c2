"""The search: forms of the whole program, each made into a design, and the design of the fewest cycles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from tg2hdl_ir import CapacityError, ProgramIR
from tg2hdl_ir.passes.common_kernels import with_bound_values, with_common_kernels
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.pipeline import rewrites
from tg2hdl_lower import Alternative, Cost, Decision, HardwarePlan
from tg2hdl_lower.decisions import Trials, decide, most_cycles
from tg2hdl_top.design import Design
from tg2hdl_top.design_program import design_program, plan_memories, sharing_of
from tg2hdl_top.external.budget import check_schedule, on_chip_bits, on_chip_budget, too_large
from tg2hdl_top.external.choose import place_weights
from tg2hdl_top.external.memory_port import check_memory
from tg2hdl_top.external.tiles import find_tile_repeats
from tg2hdl_top.lane_choice import LaneChooser
from tg2hdl_top.memo import search_memo
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.placement import PlacedProgram, place, place_cores, place_program
from tg2hdl_top.repeats import Repeats, find_repeats
from tg2hdl_top.repeats.shapes import with_cores_of_one_shape
from tg2hdl_top.roles import buffer_roles
from tg2hdl_top.row_programs import check_rows, has_row_runs, with_row_runs
from tg2hdl_top.search.budgets import best_of_budgets
from tg2hdl_top.search.cuts import with_cut_products
from tg2hdl_top.search.followers import with_followers
from tg2hdl_top.search.form import Form
from tg2hdl_top.search.measure import (
    design_cost,
    estimating,
    multiplier_blocks,
    planned_area,
    planned_figures,
)
from tg2hdl_top.search.results_in_order import with_results_in_order
from tg2hdl_top.search.sums import with_bias_first, with_partial_sums
from tg2hdl_top.sequencer import Arrangement, sequencer_named
from tg2hdl_top.shared_memories import with_shared_memories

__all__ = ["Captured", "best_design", "with_regrouped_sums"]

TRIALS = 4
"""Placements of external weights, each for less memory than the one before."""

_Made: TypeAlias = Callable[[Form], Design]


@dataclass(frozen=True)
class Captured:
    """The source of a design: the program before the search, and the one that computes its weights.

    Parameters
    ----------
    program : ProgramIR
    preparation : ProgramIR or None
    options : CompileOptions
    decisions : tuple of Decision
        Those that led to the program.
    """

    program: ProgramIR
    preparation: ProgramIR | None
    options: CompileOptions
    decisions: tuple[Decision, ...] = ()


def best_design(captured: Captured, whole: ProgramIR) -> Design:
    """The design of the budget of multipliers and the form with the fewest cycles.

    Parameters
    ----------
    whole : ProgramIR
        The program with canonical kernels.
    """

    def made(options: CompileOptions) -> Design:
        return _best_form(replace(captured, options=options), whole)

    options = captured.options
    with search_memo(), estimating(planned_area if options.prefer == "area" else None):
        return with_shared_memories(best_of_budgets(options, made))


def _best_form(captured: Captured, whole: ProgramIR) -> Design:
    options = captured.options
    if options.schedule == "rows":
        check_rows(whole, options)
        form = Form(with_row_runs(whole))
        for rewrite in rewrites("search") if options.cut_kernels else ():
            found = rewrite.run(form, options)
            form = found if has_row_runs(found.program) else form
        return _on_chip(replace(captured, program=form.program), form.program, form, shares=False)
    if options.weights == "external":
        budget = on_chip_budget(options)
        check_memory(options.memory_port, options.memory)

        def made(form: Form) -> Design:
            return _with_external(captured, form, budget)

    else:
        shares = options.share_kernels and len(whole.calls) > 1
        if shares and (shares := sequencer_named(options.schedule).shares_cores):
            whole = with_common_kernels(whole)
        uncut = whole

        def made(form: Form) -> Design:
            return _on_chip(captured, uncut, form, shares)

    design = _with_cuts(Form(whole), options, made)
    biased = with_bias_first(Form(whole), options)
    if biased.program is whole:
        return design
    return _better("start-at-bias", design, lambda: _with_cuts(biased, options, made), options)


def _with_cuts(form: Form, options: CompileOptions, made: _Made) -> Design:
    """The design of the best forms of the kernels, cut where that takes fewer cycles."""
    if not options.cut_kernels:
        return made(form)
    for rewrite in rewrites("search"):
        form = rewrite.run(form, options)
    again = with_cut_products(form, options)
    if again.program is form.program:
        return made(again)
    return _better("product cut", made(form), lambda: made(again), options)


def _better(change: str, design: Design, other: Callable[[], Design], options: CompileOptions) -> Design:
    """The design, or another one that takes fewer cycles; the decision is its last."""
    trial: Design | None = None
    try:
        trial = other()
        after = Alternative("with it", design_cost(trial))
    except CapacityError as error:
        after = Alternative("with it", None, error.message)
    before = Alternative("without it", design_cost(design))
    made, decision = decide(
        change, design.program.name, change, before, [(after, trial)], "program", prefer=options.prefer
    )
    design = made or design
    return replace(design, decisions=(*design.decisions, decision))


def _on_chip(captured: Captured, uncut: ProgramIR, form: Form, shares: bool) -> Design:
    """The design of a form, all of whose weights are on the chip; `uncut` has the kernels before the search."""
    options, program = captured.options, captured.program
    changed = [call.kernel for call in form.program.calls] != [call.kernel for call in uncut.calls]
    if options.float_order == "relaxed":
        form, changed = with_partial_sums(form, options), True
    form, repeats, plans = _planned(form, options, shares)
    if changed or repeats is not None:
        program = form.program
    return _designed(captured, replace(form, program=program), plans, repeats)


def _designed(
    captured: Captured,
    form: Form,
    plans: list[HardwarePlan],
    repeats: Repeats | None,
    notes: Sequence[str] | None = None,
) -> Design:
    program, options = form.program, captured.options
    sources = tuple(call.kernel for call in program.calls)
    return design_program(
        with_regrouped_sums(program, plans),
        options,
        plans,
        sources,
        captured.preparation,
        repeats,
        notes=notes,
        decisions=(*captured.decisions, *form.trail),
    )


def _with_external(captured: Captured, form: Form, budget: int) -> Design:
    """The design of a form whose weights are outside the chip as far as they must be.

    The overhead of the memories, such as copies for further readers, is known only when they are planned: the weights
    are then placed again for the remaining bits.
    """
    options = captured.options
    form = with_partial_sums(form, options)
    allowed, refusal = budget, None
    for _ in range(TRIALS):
        try:
            placed = place_weights(form.program, options, allowed)
        except CapacityError as error:
            raise refusal or error from None
        notes = (f"on-chip memory: {budget:,} bits", *placed.notes)
        decided = (*form.trail, *placed.decisions)
        repeats: Repeats | None
        if placed.tiled:
            check_schedule(options)
            found = repeats = find_tile_repeats(placed.program, options)
            trial, plans = Form(found.program, decided), place_program(found.program, options, found)
        else:
            common = Form(with_common_kernels(form.program), decided)
            trial, repeats, plans = _planned(common, options, shares=False)
        design = _designed(captured, trial, plans, repeats, notes)
        taken = on_chip_bits(design)
        if taken <= budget:
            return design
        allowed, refusal = budget - (taken - placed.bits), too_large(design, taken, budget)
    assert refusal is not None, "there was a trial"
    raise refusal


def _planned(
    form: Form, options: CompileOptions, shares: bool
) -> tuple[Form, Repeats | None, list[HardwarePlan]]:
    """Plans of all calls, and which of them run on one core; none where that would cost too many cycles."""
    alone = replace(form, program=with_bound_values(form.program))
    repeats = find_repeats(form.program, options) if shares else None
    if repeats is None or not repeats.repeated:
        return _with_orders(alone, options)
    placed = place_cores(repeats, options)
    plans = [placed.plans[core] for core in repeats.cores]
    kept = Alternative(f"{1 + max(repeats.cores)} cores", planned_figures(repeats.program, plans, options))
    apart, cost, note = f"{len(plans)} cores, one for each kernel", None, ""
    if _near_the_fewest(plans, repeats, options):
        note = "not planned: the steps take nearly the fewest cycles possible"
    else:
        others = _ordered(alone.program, options, place(alone.program, options))
        cost = planned_figures(alone.program, others, options)
    trials: Trials[bool] = Trials(
        "common-kernels",
        form.program.name,
        "shared core",
        Alternative(apart, cost, note),
        False,
        prefer=options.prefer,
        scope="program",
    )
    trials.offer(kept, True)
    nearly = "each core does the steps of its kernels in nearly the fewest cycles possible"
    trail = (*form.trail, *placed.decisions, trials.decision(nearly if cost is None else ""))
    if not trials.best:
        return _with_orders(replace(alone, trail=trail), options)
    plans, followers = with_followers(repeats.program, plans, placed.follower, options, repeats)
    each = [plans[repeats.cores.index(core)] for core in range(len(placed.plans))]
    repeats, plans = with_cores_of_one_shape(repeats, each, placed.bounded, options)
    return Form(repeats.program, (*trail, *followers)), repeats, plans


def _with_orders(form: Form, options: CompileOptions) -> tuple[Form, None, list[HardwarePlan]]:
    """A core for each call, and the followers among them."""
    program = form.program
    placed, decided = with_results_in_order(program, options, partial(_ordered_cost, program, options))
    form = replace(form, trail=(*form.trail, *placed.decisions, *decided))
    plans, followers = with_followers(program, placed.plans, placed.follower, options)
    found = _ordered(program, options, replace(placed, plans=plans))
    if not any(plan.follows for plan in plans):
        return replace(form, trail=(*form.trail, *followers)), None, found
    apart = _ordered(program, options, placed)
    with_it, without = (_whole_cost(program, options, each) for each in (found, apart))
    trials = Trials(
        "followers",
        program.name,
        "followers",
        Alternative("none", without),
        apart,
        prefer=options.prefer,
        scope="program",
    )
    trials.offer(Alternative("those of the kernels", with_it), found)
    decision = trials.decision(
        "few multipliers on top of the budget, and hardly more cycles", "the program takes more cycles"
    )
    trail = (*form.trail, *(followers if trials.taken else ()), decision)
    return replace(form, trail=trail), None, trials.best


def _ordered_cost(program: ProgramIR, options: CompileOptions, placed: PlacedProgram) -> Cost:
    return _whole_cost(program, options, _ordered(program, options, placed))


def _whole_cost(program: ProgramIR, options: CompileOptions, plans: Sequence[HardwarePlan]) -> Cost:
    """Cost of a program as its sequencer starts the kernels."""
    plan = _arranged(program, options, plans).plan
    cycles = sequencer_named(plan.policy).predict([each.cycles() for each in plans], plan).latency
    return replace(
        planned_figures(program, plans, options, cycles), multipliers=multiplier_blocks(plans, options)
    )


def _arranged(program: ProgramIR, options: CompileOptions, plans: Sequence[HardwarePlan]) -> Arrangement:
    memories, sequencer = plan_memories(program, options, plans), sequencer_named(options.schedule)
    return sequencer.arrange(options.schedule, plans, memories, sharing_of(plans, options))


def _ordered(program: ProgramIR, options: CompileOptions, placed: PlacedProgram) -> list[HardwarePlan]:
    """Planned kernels, in the orders of steps that suit their sequencer."""
    sequencer = sequencer_named(options.schedule)

    def orders(number: int, spans: Collection[int]) -> Iterable[HardwarePlan]:
        # A follower has the order of the kernel before it.
        pair = placed.plans[number : number + 2]
        return () if any(plan.follows for plan in pair) else placed.orders(number, spans)

    return sequencer.choose(placed.plans, orders, partial(_arranged, program, options))


@ir_pass("take-regrouped")
def with_regrouped_sums(program: ProgramIR, plans: list[HardwarePlan]) -> ProgramIR:
    """Program whose kernels add in the order of the hardware.

    Parameters
    ----------
    program : ProgramIR
    plans : list of HardwarePlan
        Of the calls.
    """
    calls = tuple(
        replace(call, kernel=plan.source or plan.kernel) if plan.regrouped else call
        for call, plan in zip(program.calls, plans, strict=True)
    )
    return replace(program, calls=calls)


def _near_the_fewest(plans: Sequence[HardwarePlan], repeats: Repeats, options: CompileOptions) -> bool:
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
