"""Kernels that finish one result after the other, so that those which read them begin early."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tg2hdl_ir import KernelIR, ProgramIR
from tg2hdl_ir.analysis.axes import analyze_axes
from tg2hdl_lower import Alternative, Cost, Decision, HardwarePlan
from tg2hdl_lower.decisions import Trials, most_cycles
from tg2hdl_top.design_program import sharing_of
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.placement import PlacedProgram, place
from tg2hdl_top.sequencer import sequencer_named

__all__ = ["with_results_in_order"]

CHANGE = "results in order"

MOST_ALONE = 3
"""Kernels that are tried alone, those with the longest drain first."""


def with_results_in_order(
    program: ProgramIR, options: CompileOptions, cost: Callable[[PlacedProgram], Cost]
) -> tuple[PlacedProgram, tuple[Decision, ...]]:
    """Planned calls, whose float reductions finish one result after the other where the program takes fewer cycles.

    By themselves most of them take fewer cycles with several results at once, which hide the latency of the adders; but
    then all are done at the end.  Float sums must be regrouped for it.

    Parameters
    ----------
    program : ProgramIR
        With canonical kernels.
    options : CompileOptions
    cost : callable
        Cost of the program with some plans.
    """
    placed = place(program, options)
    calls = [n for n, call in enumerate(program.calls[:-1]) if _reduces_floats(call.kernel)]
    if options.float_order == "strict" or not options.chooses_lanes or not calls:
        return placed, ()
    if not _may_win(placed.plans, options):
        return placed, ()
    name = "as each kernel takes the fewest cycles"
    trials = Trials(
        "results-in-order",
        program.name,
        CHANGE,
        Alternative(name, cost(placed)),
        placed,
        prefer=options.prefer,
        scope="program",
    )
    alone = sorted(calls, key=lambda n: -placed.plans[n].drain)[:MOST_ALONE] if len(calls) > 1 else []
    for some in (calls, *([n] for n in alone)):
        trial = place(program, options, some)
        names = ", ".join(dict.fromkeys(program.calls[n].kernel.name for n in some))
        trials.offer(Alternative(f"results one after the other: {names}", cost(trial)), trial)
        if trials.taken:
            break
    decision = trials.decision("the next kernel begins before all are done", "the program takes more cycles")
    return trials.best, (decision,)


def _reduces_floats(kernel: KernelIR) -> bool:
    info = analyze_axes(kernel, regroup_floats=True)
    return bool(info.floats & (info.reducible | info.scanned))


def _may_win(plans: list[HardwarePlan], options: CompileOptions) -> bool:
    """Whether kernels could overlap for so long that it is worth it: steps with shared multipliers do not."""
    sharing, sequencer = sharing_of(plans, options), sequencer_named(options.schedule)
    if not sequencer.follows or sharing.held_operands or any(p.kernel.variables for p in plans):
        return False
    busy: Counter[str] = Counter()
    for plan in plans if sharing.multipliers else ():
        busy.update(dict.fromkeys({product.pool for product in plan.products}, plan.cycles() - plan.drain))
    total, least = sum(plan.cycles() for plan in plans), max(plan.cycles() for plan in plans)
    return max(least, *busy.values(), 0) <= most_cycles(CHANGE, total, options.prefer)
