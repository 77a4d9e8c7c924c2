"""Kernels run one after the other: each starts in the cycle in which the previous one is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
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
        """Each kernel starts when the previous one is done, or its followers' time after that one's start."""
        starts: list[int] = []
        ends: list[int] = []
        delays = dict(plan.followers)
        for number, count in enumerate(cycles):
            start = ends[-1] if ends else 0
            if number in delays:
                start = starts[-1] + delays[number]
            starts.append(start)
            ends.append(start + count)
        return Timeline(tuple(starts), tuple(ends), interval=ends[-1])

    def component(self, kernels: int, plan: SequencerPlan) -> SequencerComponent:
        """A chain from `done` to `start`."""
        return _SerialChain(kernels, dict(plan.followers))

    def run_component(self, order: Sequence[int], plan: SequencerPlan) -> RunSequencerComponent:
        """A counter of runs, and the core of each."""
        return _SerialRuns(order, dict(plan.followers))

    def waiting_component(self, order: Sequence[int]) -> RunSequencerComponent:
        """The same, with a register that keeps a start which must wait."""
        return _SerialRuns(order, {}, waits=True)


class _SerialRuns(RunSequencerComponent):
    def __init__(self, order: Sequence[int], delays: Mapping[int, int], *, waits: bool = False) -> None:
        super().__init__(order, waits=waits)
        self.delays = delays

    def elaborate(self, platform: object) -> Module:
        m = Module()
        done = Signal()
        ahead = Signal(len(self.kernel_start), init=1 << self.order[0])
        # The first run begins when the host says so; the last one has begun when the first is to follow again.
        last = self.following == 0
        begins = done & ~last
        if self.delays:
            begins = self._after_another(m, done, ahead) & ~last
        else:
            m.d.comb += done.eq(reduce(or_, self.kernel_done))
        wanted: Value = self.start | begins
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

    def _after_another(self, m: Module, done: Signal, ahead: Signal) -> Value:
        """Drive `done` by the core of the latest run, and return whether the following run may begin."""
        latest = Signal.like(ahead, name="latest")
        count = Signal(range(max(self.delays.values()) + 1))
        delay = Signal.like(count, name="delay")
        with m.If(self.advance):
            m.d.sync += [latest.eq(ahead), count.eq(1)]
        with m.Elif(count != delay):
            m.d.sync += count.eq(count + 1)
        # As `ahead`: 0 for a run that begins when the latest one is done.
        with m.Switch(self.following):
            for run in range(len(self.order)):
                with m.Case(run):
                    m.d.sync += delay.eq(self.delays.get(run, 0))
        follows = delay != 0
        m.d.comb += done.eq((Cat(self.kernel_done) & latest).any() & ~follows)
        return Mux(follows, count == delay, done)


class _SerialChain(SequencerComponent):
    def __init__(self, kernels: int, delays: Mapping[int, int]) -> None:
        super().__init__(kernels)
        self.delays = delays

    def elaborate(self, platform: object) -> Module:
        m = Module()
        start: Value = self.start
        count = Signal(range(max(self.delays.values(), default=0) + 1))
        for number, (kernel_start, kernel_done) in enumerate(
            zip(self.kernel_start, self.kernel_done, strict=True)
        ):
            if number in self.delays:
                start = self._later(m, self.kernel_start[number - 1], count, self.delays[number])
            m.d.comb += kernel_start.eq(start)
            start = kernel_done
        m.d.comb += [self.done.eq(start), self.busy.eq(reduce(or_, self.kernel_busy))]
        return m

    def _later(self, m: Module, first: Value, count: Signal, delay: int) -> Signal:
        """A pulse so many cycles after another one; a counter serves all, as one pair of kernels runs at a time."""
        waits, pulse = Signal(), Signal()
        with m.If(first):
            m.d.sync += [waits.eq(1), count.eq(1)]
        with m.Elif(waits):
            m.d.sync += count.eq(count + 1)
        m.d.comb += pulse.eq(waits & (count == delay))
        with m.If(pulse):
            m.d.sync += waits.eq(0)
        return pulse
