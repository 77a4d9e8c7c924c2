"""Kernels start at fixed times, each as soon as the words that it reads have been written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import combinations

from amaranth import Module, Signal
from amaranth.hdl import Value

from tg2hdl_lower import Cost, HardwarePlan, MemoryPlan, family_named
from tg2hdl_lower.plan.resources import PRODUCTS
from tg2hdl_lower.sharing.arbiter import HeldOperands
from tg2hdl_top.sequencer.base import Arrangement, Sequencer, SequencerComponent, Timeline
from tg2hdl_top.sequencer.offsets import Offsets, smallest_offsets, times_of
from tg2hdl_top.sequencer.orders import best_orders
from tg2hdl_top.sequencer.plan import SequencerPlan, SharedWindow, Sharing
from tg2hdl_top.sequencer.rings import ROUNDS, KernelPair, with_rings

__all__ = ["OverlapSequencer", "windows_of"]

MAX_STEPS = 1 << 25
"""Steps of all kernels up to which their accesses are enumerated."""


class OverlapSequencer(Sequencer):
    """The policy ``overlap``."""

    follows = True

    def arrange(
        self, policy: str, plans: Sequence[HardwarePlan], memories: Sequence[MemoryPlan], sharing: Sharing
    ) -> Arrangement:
        """Start each kernel as soon as possible; one after the other where that is not known before a run."""
        reason = _why_serial(plans)
        if reason:
            return Arrangement(SequencerPlan("serial", notes=(f"{policy}: {reason}",)), tuple(memories))
        memories, family = list(memories), family_named(plans[0].family)
        for _ in range(ROUNDS):
            times = times_of(plans, memories)
            found = smallest_offsets(times, memories, sharing, family)
            pairs = {
                n: KernelPair(times[n - 1], times[n], found.starts[n] - found.starts[n - 1])
                for n, each in enumerate(plans)
                if each.follows
            }
            ringed = with_rings(found.memories, pairs, family)
            # A ring of one word is read later than a memory, so that the kernel may start earlier.
            if [memory.kind for memory in ringed] == [memory.kind for memory in memories]:
                break
            memories = ringed
        ends = [start + each.cycles for start, each in zip(found.starts, times, strict=True)]
        windows = windows_of(found, list(zip(found.starts, ends, strict=True)), sharing)
        plan = SequencerPlan(policy, tuple(found.starts), max(ends), windows=windows)
        return Arrangement(plan, tuple(ringed))

    def choose(
        self,
        plans: Sequence[HardwarePlan],
        orders: Callable[[int, Collection[int]], Iterable[HardwarePlan]],
        arrange: Callable[[Sequence[HardwarePlan]], Arrangement],
    ) -> list[HardwarePlan]:
        """Take the orders of the least latency."""
        if len(plans) < 2 or _why_serial(plans):
            return list(plans)

        def cost(trial: Sequence[HardwarePlan]) -> Cost:
            plan = arrange(trial).plan
            return Cost(plan.latency, tie=sum(plan.starts))

        return best_orders(plans, orders, cost)

    def predict(self, cycles: Sequence[int], plan: SequencerPlan) -> Timeline:
        """Each kernel starts at its time."""
        ends = tuple(start + count for start, count in zip(plan.starts, cycles, strict=True))
        return Timeline(plan.starts, ends, interval=plan.interval or plan.latency)

    def component(self, kernels: int, plan: SequencerPlan) -> SequencerComponent:
        """A counter, and a compared register for each start and for each end of a window."""
        return _Counter(kernels, plan)


def _why_serial(plans: Sequence[HardwarePlan]) -> str:
    for plan in plans:
        if any(not isinstance(loop.bound, int) for loop in plan.kernel.loop_tree.walk()):
            return f"kernel {plan.kernel.name} has loop bounds that are known at run time only"
    steps = sum(plan.steps() for plan in plans)
    return f"{steps:,} steps are more than {MAX_STEPS:,}" if steps > MAX_STEPS else ""


def windows_of(found: Offsets, runs: Sequence[tuple[int, int]], sharing: Sharing) -> tuple[SharedWindow, ...]:
    """Windows of all hardware that kernels share while they run at the same time.

    Parameters
    ----------
    runs : sequence of (int, int)
        Start and end of each kernel.
    """
    windows: list[SharedWindow] = []
    for name in dict.fromkeys(use.name for use in found.uses):
        users = [use for use in found.uses if use.name == name]
        busy = [runs[use.kernel] for use in users]
        if all(a[1] <= b[0] or b[1] <= a[0] for a, b in combinations(busy, 2)):
            continue
        lead = HeldOperands.LEAD if sharing.held_operands and name == PRODUCTS else 0
        windows += [
            SharedWindow(use.kernel, name, use.interval.first - lead, use.interval.last - lead)
            for use in users
        ]
    return tuple(windows)


class _Counter(SequencerComponent):
    def __init__(self, kernels: int, plan: SequencerPlan) -> None:
        super().__init__(kernels, len(plan.windows))
        self.plan = plan

    def elaborate(self, platform: object) -> Module:
        m, plan = Module(), self.plan
        # In the cycle t after start it is t; 0 while idle.
        count = Signal(range(plan.latency + 1))
        m.d.sync += self.busy.eq((self.busy & ~self.done) | self.start)
        with m.If(self.start):
            m.d.sync += count.eq(1)
        with m.Elif(self.done):
            m.d.sync += count.eq(0)
        with m.Elif(self.busy):
            m.d.sync += count.eq(count + 1)

        def before(cycle: int) -> Value:
            """Whether the next cycle is this one."""
            return self.start if cycle == 1 else count == cycle - 1

        for cycle, pulse in [*zip(plan.starts, self.kernel_start, strict=True), (plan.latency, self.done)]:
            if cycle == 0:
                m.d.comb += pulse.eq(self.start)
            else:
                m.d.sync += pulse.eq(before(cycle))
        for window, flag in zip(plan.windows, getattr(self, "window", ()), strict=True):
            with m.If(before(window.first)):
                m.d.sync += flag.eq(1)
            with m.Elif(before(window.last + 1)):
                m.d.sync += flag.eq(0)
        return m
