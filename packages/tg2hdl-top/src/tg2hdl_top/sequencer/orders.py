"""Selects the orders of the steps of kernels that run at the same time."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from tg2hdl_lower import Alternative, Cost, HardwarePlan
from tg2hdl_lower.decisions import Trials

__all__ = ["best_orders"]

ROUNDS = 3
"""Times that every kernel is looked at again, since its best order depends on the others."""


def best_orders(
    plans: Sequence[HardwarePlan],
    orders: Callable[[int, Collection[int]], Iterable[HardwarePlan]],
    cost: Callable[[Sequence[HardwarePlan]], Cost],
) -> list[HardwarePlan]:
    """Orders of the least cost, found by changing one kernel after the other; each plan has the decision about it.

    Parameters
    ----------
    cost : callable
        Interval and cycles of the program; its `Cost.tie` is the sum of the starts, since a kernel that starts early
        may let a later one do so.  Changes that have not saved time in the end are undone.
    """
    chosen = list(plans)
    spans = sorted({plan.cycles() for plan in plans})
    choices = [[plan, *orders(number, spans)] for number, plan in enumerate(plans)]
    found: dict[int, Cost] = {}
    """Least cost of the program with a plan, by the identity of the plan."""

    def measured(number: int, plan: HardwarePlan) -> Alternative:
        whole = cost([*chosen[:number], plan, *chosen[number + 1 :]])
        found[id(plan)] = min(found.get(id(plan), whole), whole, key=lambda each: each.order)
        return Alternative(_described(plan), whole, "of the program")

    def trials(number: int, before: HardwarePlan) -> Trials[HardwarePlan]:
        name = plans[number].kernel.name
        return Trials("order", name, "order of steps", measured(number, before), before)

    for _ in range(ROUNDS):
        last = list(chosen)
        for number, others in enumerate(choices):
            tried = trials(number, chosen[number])
            for other in others:
                if other is not chosen[number]:
                    tried.offer(measured(number, other), other)
            chosen[number] = tried.best
        if all(map(operator.is_, chosen, last)):
            break
    for number, (plan, others) in enumerate(zip(plans, choices, strict=True)):
        if len(others) == 1:
            continue
        final = trials(number, plan)
        for other in others[1:]:
            taken = other is chosen[number]
            each = measured(number, other) if taken else Alternative(_described(other), found[id(other)])
            final.offer(_without_tie(each), other if taken else None)
        chosen[number] = _decided(plan, final)
    return chosen


def _without_tie(each: Alternative) -> Alternative:
    """An alternative that must save time to be taken."""
    assert each.cost is not None, "it is measured"
    return replace(each, cost=replace(each.cost, tie=None))


def _decided(alone: HardwarePlan, trials: Trials[HardwarePlan]) -> HardwarePlan:
    """The plan that was taken, with the decisions about the kernel by itself and that about its order."""
    why = "the program takes the fewest cycles with it", "no other order takes fewer cycles"
    return replace(trials.best, decisions=(*alone.decisions, trials.decision(*why)))


def _described(plan: HardwarePlan) -> str:
    counters = [loop.counter for loop in plan.kernel.loop_tree.walk() if loop.counter is not None]
    loops = ", ".join(f"i{counter.axis} < {counter.bound}" for counter in counters)
    return f"{f'loops {loops}' if loops else 'no loops'}; {plan.cycles():,} cycles alone"
