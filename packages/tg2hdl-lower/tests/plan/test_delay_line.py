"""Delay lines: whatever they are made of, a value comes out its cycles later."""

from __future__ import annotations

import pytest
from amaranth import Module, Signal
from amaranth.sim import Simulator

from tg2hdl_lower.plan.delay_line import DelayLine


@pytest.mark.parametrize(
    ("cycles", "storage"),
    [
        (0, "registers"),
        (1, "registers"),
        (3, "registers"),
        (2, "LUT RAM"),
        (9, "LUT RAM"),
        (4, "block RAM"),
        (9, "block RAM"),
    ],
)
def test_a_value_comes_out_after_the_cycles_of_the_line(cycles, storage):
    m = Module()
    value = Signal(8)
    output = DelayLine(cycles, storage).build(m, value, "line")
    given = [(37 * n + 5) % 256 for n in range(40)]
    found = []

    async def bench(ctx):
        for number in given:
            ctx.set(value, number)
            found.append(ctx.get(output))
            await ctx.tick()

    m.d.sync += Signal(name="clocked").eq(1)
    simulator = Simulator(m)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    assert found[cycles:] == given[: len(given) - cycles]
