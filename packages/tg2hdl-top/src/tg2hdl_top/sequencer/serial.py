"""Kernels run one after the other: each starts in the cycle in which the one before is done."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from operator import or_

from amaranth import Module
from amaranth.hdl import Value

from tg2hdl_top.sequencer.base import Sequencer, SequencerComponent, Timeline
from tg2hdl_top.sequencer.plan import SequencerPlan

__all__ = ["SerialSequencer"]


class SerialSequencer(Sequencer):
    """The policy ``serial``."""

    def predict(self, cycles: Sequence[int], plan: SequencerPlan) -> Timeline:
        """Each kernel starts when the one before is done."""
        ends = tuple(accumulate(cycles))
        return Timeline((0, *ends[:-1]), ends, interval=ends[-1])

    def component(self, kernels: int, plan: SequencerPlan) -> SequencerComponent:
        """A chain from `done` to `start`."""
        return _Chain(kernels)


class _Chain(SequencerComponent):
    def elaborate(self, platform: object) -> Module:
        m = Module()
        start: Value = self.start
        for kernel_start, kernel_done in zip(self.kernel_start, self.kernel_done, strict=True):
            m.d.comb += kernel_start.eq(start)
            start = kernel_done
        m.d.comb += [self.done.eq(start), self.busy.eq(reduce(or_, self.kernel_busy))]
        return m
