"""Runs follow each other at a fixed interval: the next one starts while kernels still work on those before it.

Time is divided into slots of one interval.  A run starts with a slot or not at all, so that kernels of neighbouring
runs always have the same distance, and a plan for one distance holds for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from amaranth import Cat, Module, Signal
from amaranth.hdl import Value
from amaranth.lib.wiring import Out

from tg2hdl_ir import FamilyDef
from tg2hdl_lower import Cost, HardwarePlan, MemoryPlan, family_named, kind_named
from tg2hdl_top.sequencer.access_times import AccessTimes
from tg2hdl_top.sequencer.banks import why_one_run, with_banks
from tg2hdl_top.sequencer.base import Arrangement, SequencerComponent
from tg2hdl_top.sequencer.offsets import NoRoomError, Offsets, smallest_offsets, times_of
from tg2hdl_top.sequencer.orders import best_orders
from tg2hdl_top.sequencer.overlap import OverlapSequencer, windows_of
from tg2hdl_top.sequencer.plan import SequencerPlan, Sharing

__all__ = ["DataflowSequencer"]


class DataflowSequencer(OverlapSequencer):
    """The policy ``dataflow``."""

    follows = False

    def arrange(
        self, policy: str, plans: Sequence[HardwarePlan], memories: Sequence[MemoryPlan], sharing: Sharing
    ) -> Arrangement:
        """Take the smallest interval; one run at a time where runs depend on each other."""
        single = super().arrange("overlap", plans, memories, sharing)
        if not single.plan.starts:
            return single
        family, times = family_named(plans[0].family), times_of(plans, memories)
        variables = [plan.kernel.name for plan in plans if plan.kernel.variables]
        reason = why_one_run(times, memories)
        if variables:
            reason = f"kernel {variables[0]} has run-time variables, which the host sets for one run"
        if reason:
            notes = (*single.plan.notes, f"{policy}: {reason}, so that runs do not overlap")
            return replace(single, plan=replace(single.plan, notes=notes))
        found, interval = _smallest_interval(times, memories, sharing, family, single.plan.latency)
        ends = [start + each.cycles for start, each in zip(found.starts, times, strict=True)]
        windows = windows_of(found, [(0, 1)] * len(ends), sharing)
        plan = SequencerPlan(policy, tuple(found.starts), max(ends), interval, windows)
        banked = with_banks(times, found.starts, found.memories, interval, max(ends))
        return Arrangement(plan, tuple(_with_all_banks(memory, family) for memory in banked))

    def choose(
        self,
        plans: Sequence[HardwarePlan],
        orders: Callable[[int, Collection[int]], Iterable[HardwarePlan]],
        arrange: Callable[[Sequence[HardwarePlan]], Arrangement],
    ) -> list[HardwarePlan]:
        """Take the orders of the least interval, among them those of the least latency."""
        if len(plans) < 2 or arrange(plans).plan.policy == "serial":
            return list(plans)

        def cost(trial: Sequence[HardwarePlan]) -> Cost:
            plan = arrange(trial).plan
            return Cost(plan.latency, interval=plan.interval, tie=sum(plan.starts))

        return best_orders(plans, orders, cost)

    def component(self, kernels: int, plan: SequencerPlan) -> SequencerComponent:
        """A counter of the cycles of a slot, and a flag for each slot that a run spans."""
        return _Slots(kernels, plan)


def _smallest_interval(
    times: Sequence[AccessTimes],
    memories: Sequence[MemoryPlan],
    sharing: Sharing,
    family: FamilyDef,
    latency: int,
) -> tuple[Offsets, int]:
    # A kernel starts again when it is done at the earliest, and shared hardware serves one at a time.  Where no
    # kernels overlap, the host still writes the next inputs and reads the last results during a run.
    used: Counter[str] = Counter()
    for each in times:
        for pool, (first, last) in sharing.of(each.shared).items():
            used[pool] += last - first + 1
    for interval in range(max([*used.values(), *(each.cycles for each in times)]), latency):
        try:
            return smallest_offsets(times, memories, sharing, family, interval), interval
        except NoRoomError:
            continue
    return smallest_offsets(times, memories, sharing, family, latency), latency


def _with_all_banks(memory: MemoryPlan, family: FamilyDef) -> MemoryPlan:
    """The memory with the pieces and the area of all its banks."""
    use, kind, ports = replace(memory.use, words=memory.depth), kind_named(memory.kind), len(memory.ports)
    return replace(memory, pieces=kind.pieces(use, family, ports), area=kind.area(use, family, ports))


class _Slots(SequencerComponent):
    def __init__(self, kernels: int, plan: SequencerPlan) -> None:
        super().__init__(kernels, len(plan.windows), {"ready": Out(1)})
        self.plan = plan

    def elaborate(self, platform: object) -> Module:
        m, plan = Module(), self.plan
        interval = plan.interval
        # Flags are compared a cycle before they change.
        last = max([plan.latency, *(window.last + 1 for window in plan.windows)]) - 1
        slots = last // interval + 1
        phase = Signal(range(interval))
        # Whether a run started with this slot, with the one before, and so on; from the second cycle of a slot.
        began = Signal(slots)
        begin = Signal()
        here = Signal(slots)
        m.d.comb += [
            self.ready.eq(phase == 0),
            begin.eq(self.start & self.ready),
            here.eq(Cat(begin, began)),
        ]
        with m.If(self.ready):
            m.d.sync += began.eq(here)
            with m.If(here.any()):
                m.d.sync += phase.eq(1)
        with m.Else():
            m.d.sync += phase.eq(phase + 1)
            with m.If(phase == interval - 1):
                m.d.sync += phase.eq(0)
        running = Signal(range(slots + 1))
        m.d.sync += running.eq(running + begin - self.done)
        m.d.comb += self.busy.eq(running.any())

        def before(cycle: int) -> Value:
            """Whether the next cycle is this one of a run."""
            slot, place = divmod(cycle - 1, interval)
            flag: Value = (here if place == 0 else began)[slot]
            return flag & (phase == place)

        for cycle, pulse in [*zip(plan.starts, self.kernel_start, strict=True), (plan.latency, self.done)]:
            if cycle == 0:
                m.d.comb += pulse.eq(begin)
            else:
                m.d.sync += pulse.eq(before(cycle))
        for window, flag in zip(plan.windows, getattr(self, "window", ()), strict=True):
            # The next window of a kernel may begin with the cycle after this one.
            with m.If(before(window.last + 1)):
                m.d.sync += flag.eq(0)
            with m.If(before(window.first)):
                m.d.sync += flag.eq(1)
        return m
