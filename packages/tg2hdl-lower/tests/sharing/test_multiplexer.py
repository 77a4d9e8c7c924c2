"""The multiplexer of the users of a resource, of which at most one is busy."""

import random

import pytest
from amaranth import Module, Signal, signed
from amaranth.sim import Simulator

from tg2hdl_lower.sharing.multiplexer import gated, selected, selected_inside

SHAPES = (signed(8), signed(5), 7)


@pytest.mark.parametrize("count", [1, 2, 3, 8, 9, 10, 16, 17, 20])
@pytest.mark.parametrize("inside", [False, True])
def test_the_value_of_the_busy_user_is_selected(count: int, inside: bool) -> None:
    rng = random.Random(count)
    flags = [Signal(name=f"flag{n}") for n in range(count)]
    values = [Signal(SHAPES[n % len(SHAPES)], name=f"value{n}") for n in range(count)]
    sources = list(zip(flags, values, strict=True))
    m, found, zero = Module(), Signal(signed(9)), Signal(signed(9))
    m.submodules.inner = inner = Module()
    chosen = selected_inside(m, inner, sources, "chosen") if inside else selected(sources)
    m.d.comb += [found.eq(chosen), zero.eq(gated(sources))]
    runs = []

    async def bench(ctx) -> None:
        for busy in [*range(count), *range(count)]:
            numbers = [rng.randrange(-16, 16) if v.shape().signed else rng.randrange(128) for v in values]
            for n in range(count):
                ctx.set(flags[n], n == busy)
                ctx.set(values[n], numbers[n])
            assert ctx.get(found) == ctx.get(zero) == numbers[busy]
            ctx.set(flags[busy], 0)
            assert ctx.get(zero) == 0
            runs.append(busy)

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()
    assert len(runs) == 2 * count
