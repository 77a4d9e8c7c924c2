"""Fixed starts where they save cycles, one kernel after the other where they do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from tg2hdl_lower import Alternative, Cost, HardwarePlan, MemoryPlan
from tg2hdl_lower.decisions import decide, most_cycles
from tg2hdl_top.sequencer.base import Arrangement, Sequencer, sequencer_named
from tg2hdl_top.sequencer.followers import find_followers
from tg2hdl_top.sequencer.overlap import OverlapSequencer
from tg2hdl_top.sequencer.plan import SequencerPlan, Sharing

__all__ = ["AutomaticSequencer"]


class AutomaticSequencer(OverlapSequencer):
    """The policy ``auto``: kernels as planned, whose fill and drain overlap where that saves cycles."""

    shares_cores = True
    can_wait = True

    def arrange(
        self, policy: str, plans: Sequence[HardwarePlan], memories: Sequence[MemoryPlan], sharing: Sharing
    ) -> Arrangement:
        """Fixed starts if they save one of 200 cycles; only sought where that may be: see `_beside`."""
        serial = Arrangement(SequencerPlan("serial"), tuple(memories))
        if sharing.cores:
            return serial
        at_run_time = any(plan.kernel.variables for plan in plans)
        found = find_followers(plans, memories, sharing, also_unplanned=at_run_time)
        serial = Arrangement(
            SequencerPlan("serial", followers=tuple(found.delays.items())), tuple(found.memories)
        )
        if at_run_time:
            return serial
        total = sequencer_named("serial").predict([plan.cycles() for plan in plans], serial.plan).latency
        least = most_cycles("fixed starts", total)
        # Registers that hold the operands of idle kernels are the longest paths of a design; windows would add to them.
        if sharing.held_operands or total - _beside(plans, sharing) > least:
            return serial
        fixed = super().arrange("overlap", plans, memories, sharing)
        if not fixed.plan.latency:
            return serial
        overlap = Alternative("fixed starts", Cost(fixed.plan.latency))
        before = Alternative("one after the other", Cost(total))
        taken, decision = decide("schedule", "program", "fixed starts", before, [(overlap, fixed)], "program")
        return replace(taken or serial, decision=decision)

    def choose(
        self,
        plans: Sequence[HardwarePlan],
        orders: Callable[[int, Collection[int]], Iterable[HardwarePlan]],
        arrange: Callable[[Sequence[HardwarePlan]], Arrangement],
    ) -> list[HardwarePlan]:
        """The orders of each kernel by itself."""
        return Sequencer.choose(self, plans, orders, arrange)


def _beside(plans: Sequence[HardwarePlan], sharing: Sharing) -> int:
    """Most cycles that overlap may save: kernels drain, and those with multipliers of their own overlap."""
    used: Counter[str] = Counter()
    for plan in plans:
        used.update({pool: plan.cycles() for pool in _pools(plan, sharing)})
    busiest = max(used, key=lambda pool: used[pool], default="")
    # Of the kernels without multipliers only float reductions may finish one result after the other.
    apart = (
        plan
        for number, plan in enumerate(plans)
        if busiest not in (found := _pools(plan, sharing)) and ((number and found) or plan.regrouped)
    )
    return sum(plan.drain for plan in plans[1:]) + sum(plan.cycles() - plan.drain for plan in apart)


def _pools(plan: HardwarePlan, sharing: Sharing) -> set[str]:
    """Pools of multipliers that a kernel shares with others."""
    return {resource.pool for resource in plan.products} if sharing.multipliers else set()
