"""State of a register map: runs, cycles, events and the first refused access."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Signal, Value

from tg2hdl_lower import HostShape
from tg2hdl_top.register_map import AccessCode

__all__ = ["RunState"]


class RunState:
    """Registers about the runs of a design, and about accesses that were refused.

    Parameters
    ----------
    m : Module
        Gets the statements.
    design : interface
        As in `RegisterFile`.
    serves : HostShape
    link_error : Value
        Counts a dropped packet.
    windows : int
        Buffers in the map.
    """

    def __init__(self, m: Module, design: Any, serves: HostShape, link_error: Value, windows: int) -> None:
        self.runs, self.cycles, self.link_errors, self.stalls = (
            Signal(32, name=name) for name in ("runs", "cycles", "link_errors", "stalls")
        )
        self.error, self.partial = Signal(3), Signal(max(1, windows))
        self.enabled, self.pending = Signal(2, name="irq_enable"), Signal(2, name="irq_pending")
        self.result, self.starting, self.occupied = Signal(), Signal(), Signal()
        ended = Signal(8)
        self.status = Cat(self.occupied, self.result, self.partial.any(), Const(0, 5), ended)
        m.d.comb += self.occupied.eq(design.start | design.busy)
        m.d.sync += [
            design.start.eq(self.starting),
            self.link_errors.eq(self.link_errors + link_error),
            self.cycles.eq(self.cycles + design.busy),
            ended.eq(ended + Cat(design.kernel_done).any()),
        ]
        width = max(1, serves.longest_start.bit_length())
        order = serves.order
        self.ends = [Signal(width, name=f"end{n}") for n in range(len(order))]
        done: list[Value] = list(design.kernel_done)
        if len(done) < len(order):  # cores run several times, one run after the other
            done = [Cat(*done).any() & (ended == n) for n in range(len(order))]
        for pulse, end in zip(done, self.ends, strict=True):
            with m.If(pulse):
                m.d.sync += end.eq(self.cycles + 1)
        with m.If(design.done):
            m.d.sync += self.result.eq(1)
        if serves.loop is not None:
            with m.If(design.loop.begins):
                m.d.sync += ended.eq(0)
        with m.If(self.starting):
            m.d.sync += [self.runs.eq(self.runs + 1), self.cycles.eq(0), ended.eq(0), self.result.eq(0)]

    def refuse(self, m: Module, code: int) -> None:
        """Keep the code of the first refused access.

        Parameters
        ----------
        m : Module
        code : int
            Of `AccessCode`; OK keeps nothing.
        """
        if code != AccessCode.OK:
            m.d.sync += self.pending[1].eq(1)
            with m.If(self.error == 0):
                m.d.sync += self.error.eq(code)
