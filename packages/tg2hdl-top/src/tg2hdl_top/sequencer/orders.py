"""Selects the orders of the steps of kernels that run at the same time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from tg2hdl_lower import HardwarePlan

__all__ = ["best_orders"]

ROUNDS = 3
"""Times that every kernel is looked at again, since what suits it depends on the others."""


def best_orders(
    plans: Sequence[HardwarePlan],
    orders: Callable[[int, Collection[int]], Iterable[HardwarePlan]],
    cost: Callable[[Sequence[HardwarePlan]], tuple[Any, int]],
) -> list[HardwarePlan]:
    """Orders of the least cost, found by changing one kernel after the other.

    Parameters
    ----------
    cost : callable
        What counts, and the sum of the starts: among equal costs earlier starts are better, since a kernel that starts
        early may let a later one do so.  Changes that have not lowered the cost in the end are undone.
    """
    chosen = list(plans)
    spans = sorted({plan.cycles() for plan in plans})
    choices = [[plan, *orders(number, spans)] for number, plan in enumerate(plans)]

    least = cost(chosen)
    for _ in range(ROUNDS):
        before = least
        for number, others in enumerate(choices):
            for other in others:
                trial = [*chosen[:number], other, *chosen[number + 1 :]]
                if other is not chosen[number] and (found := cost(trial)) < least:
                    chosen, least = trial, found
        if least == before:
            break
    for number, plan in enumerate(plans):
        trial = [*chosen[:number], plan, *chosen[number + 1 :]]
        if plan is not chosen[number] and cost(trial)[0] <= least[0]:
            chosen = trial
    return chosen
