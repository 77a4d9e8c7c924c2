"""Selects the orders of the steps of kernels that run at the same time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from tg2hdl_lower import HardwarePlan
from tg2hdl_lower.decisions import Alternative, Cost, Decision

__all__ = ["best_orders"]

ROUNDS = 3
"""Times that every kernel is looked at again, since its best order depends on the others."""


def best_orders(
    plans: Sequence[HardwarePlan],
    orders: Callable[[int, Collection[int]], Iterable[HardwarePlan]],
    cost: Callable[[Sequence[HardwarePlan]], tuple[Cost, int]],
) -> list[HardwarePlan]:
    """Orders of the least cost, found by changing one kernel after the other; each plan has the decision about it.

    Parameters
    ----------
    cost : callable
        Interval and cycles of the program, and the sum of the starts: among equal costs earlier starts are better,
        since a kernel that starts early may let a later one do so.  Changes that have not lowered the cost in the end
        are undone.
    """
    chosen = list(plans)
    spans = sorted({plan.cycles() for plan in plans})
    choices = [[plan, *orders(number, spans)] for number, plan in enumerate(plans)]
    found: dict[int, Cost] = {}
    """Least cost of the program with a plan, by the identity of the plan."""

    def measured(trial: list[HardwarePlan], number: int) -> tuple[int, int, int]:
        whole, starts = cost(trial)
        known = found.get(id(trial[number]))
        if known is None or whole.time < known.time:
            found[id(trial[number])] = whole
        return *whole.time, starts

    whole, starts = cost(chosen)
    least = *whole.time, starts
    found |= dict.fromkeys(map(id, plans), whole)
    for _ in range(ROUNDS):
        before = least
        for number, others in enumerate(choices):
            for other in others:
                trial = [*chosen[:number], other, *chosen[number + 1 :]]
                if other is not chosen[number] and (now := measured(trial, number)) < least:
                    chosen, least = trial, now
        if least == before:
            break
    for number, plan in enumerate(plans):
        trial = [*chosen[:number], plan, *chosen[number + 1 :]]
        if plan is not chosen[number] and measured(trial, number)[:2] <= least[:2]:
            chosen = trial
    return [
        plan if len(choices[number]) == 1 else _decided(plans[number], plan, choices[number], found)
        for number, plan in enumerate(chosen)
    ]


def _decided(
    alone: HardwarePlan, taken: HardwarePlan, choices: Sequence[HardwarePlan], found: Mapping[int, Cost]
) -> HardwarePlan:
    """The plan that was taken, with the decisions about the kernel by itself and that about its order."""
    alternatives = [Alternative(_described(plan), found[id(plan)], "of the program") for plan in choices]
    number = next(n for n, plan in enumerate(choices) if plan is taken)
    why = "the program takes the fewest cycles with it" if number else "no other order takes fewer cycles"
    decision = Decision("order", alone.kernel.name, tuple(alternatives), number, why)
    return replace(taken, decisions=(*alone.decisions, decision))


def _described(plan: HardwarePlan) -> str:
    counters = [loop.counter for loop in plan.kernel.loop_tree.walk() if loop.counter is not None]
    loops = ", ".join(f"i{counter.axis} < {counter.bound}" for counter in counters)
    return f"{f'loops {loops}' if loops else 'no loops'}; {plan.cycles():,} cycles alone"
