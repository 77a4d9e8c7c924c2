"""What the levelized engine does not run is refused by name."""

from __future__ import annotations

import pytest
from amaranth.hdl import (
    Assert,
    Cat,
    ClockDomain,
    ClockSignal,
    Instance,
    IOBufferInstance,
    IOPort,
    Module,
    Print,
    Signal,
)
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_ir import UnsupportedError, registry, resolve
from tg2hdl_sim import SimulationModel, open_simulation


class Built(wiring.Component):
    """What a function adds to a module."""

    def __init__(self, build):
        self.build = build
        super().__init__({"a": In(4), "y": Out(4)})

    def elaborate(self, platform):
        m = Module()
        self.build(m, self.a, self.y)
        return m


def printing(m, a, y):
    m.d.sync += [y.eq(a), Print("a:", a)]


def asserting(m, a, y):
    m.d.comb += [y.eq(a), Assert(a != 3)]


def instance(m, a, y):
    m.submodules.cell = Instance("FAST_CELL", i_a=a, o_y=y)


def falling_edge(m, a, y):
    m.domains.fall = domain = ClockDomain("fall", clk_edge="neg", reset_less=True)
    m.d.comb += domain.clk.eq(ClockSignal())
    m.d.fall += y.eq(a)


def gated_clock(m, a, y):
    m.domains.gated = domain = ClockDomain("gated", reset_less=True)
    m.d.comb += domain.clk.eq(ClockSignal() & a[0])
    m.d.gated += y.eq(a)


def asynchronous_reset(m, a, y):
    m.domains.other = domain = ClockDomain("other", async_reset=True)
    m.d.comb += [domain.clk.eq(ClockSignal()), domain.rst.eq(a[0])]
    m.d.other += y.eq(a)


def pad(m, a, y):
    m.submodules.pad = IOBufferInstance(IOPort(4, name="pad"), i=y)


def clock_as_a_value(m, a, y):
    seen = Signal()
    m.d.sync += seen.eq(a[0])
    m.d.comb += y.eq(Cat(ClockSignal(), seen))


REFUSED = {
    printing: (
        "unsupported: the levelized engine does not run Print\n  at: top\n"
        "  hint: use engine='amaranth' or 'cxxrtl', or take it out of the design"
    ),
    asserting: (
        "unsupported: the levelized engine does not run Assert, Assume or Cover\n  at: top\n"
        "  hint: use engine='amaranth' or 'cxxrtl', or take it out of the design"
    ),
    instance: (
        "unsupported: the levelized engine does not run Instance\n  at: top\n"
        "  hint: use engine='amaranth' or 'cxxrtl', or take it out of the design"
    ),
    falling_edge: (
        "unsupported: the levelized engine does not run storage that is clocked by the falling edge\n  at: top\n"
        "  hint: use engine='amaranth' or 'cxxrtl', or clock everything in the domain 'sync'"
    ),
    gated_clock: (
        "unsupported: the levelized engine does not run storage that is clocked by another signal than the input "
        "'clk'\n  at: top\n  hint: use engine='amaranth' or 'cxxrtl', or clock everything in the domain 'sync'"
    ),
    asynchronous_reset: (
        "unsupported: the levelized engine does not run storage that is reset asynchronously\n  at: top\n"
        "  hint: use engine='amaranth' or 'cxxrtl', or clock everything in the domain 'sync'"
    ),
    pad: (
        "unsupported: the levelized engine does not run IOBufferInstance\n  at: top\n"
        "  hint: use engine='amaranth' or 'cxxrtl', or take it out of the design"
    ),
    clock_as_a_value: (
        "unsupported: the levelized engine does not run designs that read the clock as a value\n  at: top\n"
        "  hint: use engine='amaranth' or 'cxxrtl', or take ClockSignal() out of the logic"
    ),
}


@pytest.mark.parametrize("build", REFUSED, ids=lambda build: build.__name__)
@pytest.mark.parametrize("vcd", [False, True])
def test_what_is_refused(build, vcd, tmp_path):
    reason = resolve(registry().simulator("levelized").available)()
    if reason is not None:
        pytest.skip(reason)
    with pytest.raises(UnsupportedError) as caught:
        open_simulation(SimulationModel(Built(build)), "levelized", vcd=tmp_path / "run.vcd" if vcd else None)
    assert str(caught.value) == REFUSED[build]
