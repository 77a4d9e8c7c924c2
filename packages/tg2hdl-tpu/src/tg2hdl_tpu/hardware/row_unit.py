"""Units that take a row in parts, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["RowUnit"]


class RowUnit(wiring.Component):
    """Some lanes that compute all words of a row.

    Parameters
    ----------
    lane : callable
        Makes a lane: a component with `a`, `b`, `opcode` and `result`, `stages` cycles later.
    lanes : int
        Words of a row.
    count : int
        Lanes of this unit.
    stages : int
        Pipeline registers of a lane.
    padding : int
        Cycles that the result is late.

    Members
    -------
    start : In(1)
        A row is at `a`, `b` and `opcode`; none other is for `lanes` / `count` cycles.
    result : Out
        `stages` + `padding` + `lanes` / `count` - 1 cycles later.
    """

    def __init__(self, lane: Callable[[], Any], lanes: int, count: int, stages: int, padding: int) -> None:
        self.parts = lanes // count
        self.units = [lane() for _ in range(count)]
        self.stages, self.padding = stages, padding
        bits = 32 * lanes
        super().__init__({"start": In(1), "a": In(bits), "b": In(bits), "opcode": In(7), "result": Out(bits)})

    def elaborate(self, platform: Any) -> Module:
        """Build the registers that give parts and collect results."""
        m = Module()
        part = 32 * len(self.units)
        operands: list[Any] = []
        for name, value in (("a", self.a), ("b", self.b), ("opcode", self.opcode)):
            step = part if name != "opcode" else 0
            if self.parts > 1:
                left = Signal(len(value) - step, name=f"{name}_left", reset_less=True)
                now = Mux(self.start, value, left)
                m.d.sync += left.eq(now[step:])
                value = now
            operands.append(value)
        a, b, opcode = operands
        for n, unit in enumerate(self.units):
            m.submodules[f"unit{n}"] = unit
            words = slice(32 * n, 32 * n + 32)
            m.d.comb += [unit.a.eq(a[words]), unit.b.eq(b[words]), unit.opcode.eq(opcode)]
        row: Any = Cat(unit.result for unit in self.units)
        if self.parts > 1:
            found = Signal(part * (self.parts - 1), name="found", reset_less=True)
            row = Cat(found, row)
            m.d.sync += found.eq(row[part:])
        for n in range(self.padding):
            later = Signal(len(row), name=f"late{n}", reset_less=True)
            m.d.sync += later.eq(row)
            row = later
        m.d.comb += self.result.eq(row)
        return m
