"""Selects the orders of the steps of kernels that run at the same time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from tg2hdl_lower import HardwarePlan
from tg2hdl_top.sequencer.plan import SequencerPlan

__all__ = ["best_orders"]

ROUNDS = 3
"""Times that every kernel is looked at again, since what suits it depends on the others."""


def best_orders(
    plans: Sequence[HardwarePlan],
    orders: Callable[[int, Collection[int]], Iterable[HardwarePlan]],
    arrange: Callable[[Sequence[HardwarePlan]], SequencerPlan],
) -> list[HardwarePlan]:
    """Orders with the least latency, found by changing one kernel after the other.

    Among equal latencies earlier starts are better: a kernel that starts early may let a later one do so.  Changes that
    have not lowered the latency in the end are undone.
    """
    chosen = list(plans)
    spans = sorted({plan.cycles() for plan in plans})
    choices = [[plan, *orders(number, spans)] for number, plan in enumerate(plans)]

    def cost(trial: Sequence[HardwarePlan]) -> tuple[int, int]:
        plan = arrange(trial)
        return plan.latency, sum(plan.starts)

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
