"""Control and address generators against a walk over the loops: the sequence of words at the ports of a kernel."""

from __future__ import annotations

import pytest
from amaranth.sim import Simulator

from tg2hdl_ir import parse_kernel
from tg2hdl_lower import KernelCore, Layout, LowerOptions
from tg2hdl_lower.planning import Planning

KERNEL = """
kernel walk
  b0: int32[200] output
  b1: int32[60]
{variables}RANGE i0 < {outer} loop
%0 = mul int32 i0, 20:int32
%1 = mul int32 i0, 12:int32
RANGE i1 < 3 loop
%2 = mul int32 i1, 4:int32
%3 = add int32 %1, %2
RANGE i2 < {inner} loop
%4 = add int32 %3, i2
%5 = LOAD int32 b1[%4]
%6 = mul int32 i1, 5:int32
%7 = add int32 %0, %6
%8 = add int32 %7, i2
STORE int32 b0[%8] = %5
END i2
END i1
RANGE i3 < 2 loop
%9 = add int32 %0, 100:int32
%10 = add int32 %9, i3
STORE int32 b0[%10] = i0
END i3
END i0
"""


def expected(outer, inner):
    """Addresses of loads, each with the number of its step, and of stores, in program order."""
    loads, stores = [], []
    for i0 in range(outer):
        for i1 in range(3):
            for i2 in range(inner):
                loads.append((12 * i0 + 4 * i1 + i2, len(stores)))
                stores.append(20 * i0 + 5 * i1 + i2)
        stores += [20 * i0 + 100 + i3 for i3 in range(2)]
    return loads, stores


def observed(plan, variables):
    """Words at the read port, each with its cycle, and at the write port."""
    core = KernelCore(plan)
    (read,), (write,) = core.reads.values(), core.writes.values()
    loads, stores = [], []

    async def bench(ctx):
        for name, value in variables.items():
            ctx.set(getattr(core.variables, name), value)
        ctx.set(core.start, 1)
        await ctx.tick()
        ctx.set(core.start, 0)
        for cycle in range(plan.cycles(variables) + 5):
            if ctx.get(read.en):
                loads.append((ctx.get(read.addr), cycle))
            if ctx.get(write.en):
                stores.append((ctx.get(write.addr), ctx.get(write.en)))
            await ctx.tick()

    simulator = Simulator(core)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    return loads, stores


@pytest.mark.parametrize("interval", [1, 3])
@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize(("outer", "inner"), [("4", "4"), ("1", "1"), ("$n", "4"), ("5", "$n")])
def test_every_word_once_in_program_order(outer, inner, interval, lanes):
    variables = "  $n: int32 1..4\n" if "$" in outer + inner else ""
    text = KERNEL.format(outer=outer, inner=inner, variables=variables)
    planning, flat = Planning.of(
        parse_kernel(text), LowerOptions(), None, {0: Layout.linear(200, lanes)}, None, (), None
    )
    plan = planning.finished(flat, interval)
    assert plan.ii == interval
    for n in (1, 4) if variables else (0,):
        loads, stores = observed(plan, {"n": n} if variables else {})
        wanted = expected(*(n if "$" in bound else int(bound) for bound in (outer, inner)))
        first = loads[0][1]
        assert loads == [(address, first + interval * step) for address, step in wanted[0]]
        assert stores == [(address // lanes, 1 << address % lanes) for address in wanted[1]]
