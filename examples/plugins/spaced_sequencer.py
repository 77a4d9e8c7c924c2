"""A sequencer: kernels one after the other, with a cycle between them."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth import Module

from tg2hdl_ir import SequencerDef, hookimpl
from tg2hdl_top.sequencer import Sequencer, SequencerComponent, Timeline


class Spaced(Sequencer):
    """The prediction and the hardware; simulation compares them."""

    def predict(self, cycles: Any, plan: Any) -> Timeline:
        starts, ends = [], []
        for count in cycles:
            starts.append(ends[-1] + 1 if ends else 0)
            ends.append(starts[-1] + count)
        return Timeline(tuple(starts), tuple(ends), interval=ends[-1])

    def component(self, kernels: int, plan: Any) -> SequencerComponent:
        return Chain(kernels)


class Chain(SequencerComponent):
    """Starts a kernel in the cycle after the one before is done."""

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.d.comb += self.kernel_start[0].eq(self.start)
        waiting = []
        for before, start in zip(self.kernel_done, self.kernel_start[1:], strict=False):
            m.d.sync += start.eq(before)
            waiting.append(start)
        m.d.comb += self.done.eq(self.kernel_done[-1])
        m.d.comb += self.busy.eq(reduce(or_, [*waiting, *self.kernel_busy]))
        return m


@hookimpl
def tg2hdl_sequencers() -> list[SequencerDef]:
    """For ``--schedule spaced``."""
    return [SequencerDef("spaced", "one after the other, with a cycle between", Spaced)]
