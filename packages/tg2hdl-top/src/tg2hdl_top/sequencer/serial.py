"""Kernels run one after the other: each starts in the cycle in which the previous one is done."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from operator import or_

from amaranth import Cat, Module, Mux, Signal
from amaranth.hdl import Value

from tg2hdl_top.sequencer.base import RunSequencerComponent, Sequencer, SequencerComponent, Timeline
from tg2hdl_top.sequencer.plan import SequencerPlan

__all__ = ["SerialSequencer"]


class SerialSequencer(Sequencer):
    """The policy ``serial``."""

    shares_cores = True
    can_wait = True

    def predict(self, cycles: Sequence[int], plan: SequencerPlan) -> Timeline:
        """Each kernel starts when the previous one is done."""
        ends = tuple(accumulate(cycles))
        return Timeline((0, *ends[:-1]), ends, interval=ends[-1])

    def component(self, kernels: int, plan: SequencerPlan) -> SequencerComponent:
        """A chain from `done` to `start`."""
        return _Chain(kernels)

    def run_component(self, order: Sequence[int], plan: SequencerPlan) -> RunSequencerComponent:
        """A counter of runs, and the core of each."""
        return _Runs(order)

    def waiting_component(self, order: Sequence[int]) -> RunSequencerComponent:
        """The same, with a register that keeps a start which must wait."""
        return _Runs(order, waits=True)


class _Runs(RunSequencerComponent):
    def elaborate(self, platform: object) -> Module:
        m = Module()
        done = Signal()
        ahead = Signal(len(self.kernel_start), init=1 << self.order[0])
        m.d.comb += done.eq(reduce(or_, self.kernel_done))
        # The first run begins when the host says so; the last one has begun when the first is to follow again.
        last = self.following == 0
        wanted: Value = self.start | (done & ~last)
        busy: Value = reduce(or_, self.kernel_busy)
        if hasattr(self, "may_start"):
            waiting = Signal()
            m.d.sync += waiting.eq((wanted | waiting) & ~self.may_start)
            wanted, busy = (wanted | waiting) & self.may_start, busy | waiting
        m.d.comb += [
            self.advance.eq(wanted),
            self.done.eq(done & last),
            self.busy.eq(busy),
            Cat(self.kernel_start).eq(ahead & self.advance.replicate(len(ahead))),
        ]
        with m.If(self.advance):
            wraps = self.following == len(self.order) - 1
            m.d.sync += self.following.eq(Mux(wraps, 0, self.following + 1))
        # A run takes two cycles or more, after which the core of the following one is known.
        with m.Switch(self.following):
            for run, core in enumerate(self.order):
                with m.Case(run):
                    m.d.sync += ahead.eq(1 << core)
        return m


class _Chain(SequencerComponent):
    def elaborate(self, platform: object) -> Module:
        m = Module()
        start: Value = self.start
        for kernel_start, kernel_done in zip(self.kernel_start, self.kernel_done, strict=True):
            m.d.comb += kernel_start.eq(start)
            start = kernel_done
        m.d.comb += [self.done.eq(start), self.busy.eq(reduce(or_, self.kernel_busy))]
        return m
