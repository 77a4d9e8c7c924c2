"""Sums of which the second word may be inverted take no LUTs for that on an ECP5."""

import random

from amaranth import Cat, Module, Signal
from amaranth.back import rtlil
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_synth import synthesize
from tg2hdl_synth.families.ecp5.inverting_adders import ATTRIBUTE, with_inverting_adders
from tg2hdl_synth.netlist_simulation import open_netlist

WIDTH = 16


class Sums(wiring.Component):
    """A sum and a difference of registers, and the carry out of them."""

    def __init__(self, *, marked: bool, condition_twice: bool = True) -> None:
        self.marked, self.condition_twice = marked, condition_twice
        super().__init__({"a": In(WIDTH), "b": In(WIDTH), "s": In(1), "c": In(1), "y": Out(WIDTH + 1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, b, s, c = (Signal.like(port) for port in (self.a, self.b, self.s, self.c))
        m.d.sync += [a.eq(self.a), b.eq(self.b), s.eq(self.s), c.eq(self.c)]
        total = Signal(WIDTH + 2, attrs={ATTRIBUTE: 1} if self.marked else {})
        condition = s.replicate(WIDTH) if self.condition_twice else Cat(s.replicate(WIDTH - 1), c)
        m.d.comb += total.eq(Cat(c, a) + Cat(c, b ^ condition))
        m.d.sync += self.y.eq(total[1:])
        return m


def test_marked_sums_compute_the_same_with_fewer_cells() -> None:
    plain, marked = (synthesize(Sums(marked=m), "ecp5-45k", place=False) for m in (False, True))
    assert marked.cells["comb"] <= plain.cells["comb"] - WIDTH + 2
    rng = random.Random(1)
    with open_netlist(marked) as simulation:
        for _ in range(200):
            a, b = (rng.choice((0, 1, (1 << WIDTH) - 1, rng.getrandbits(WIDTH))) for _ in "ab")
            s, c = rng.getrandbits(1), rng.getrandbits(1)
            for name, value in (("a", a), ("b", b), ("s", s), ("c", c)):
                simulation.set(name, value)
            simulation.step(2)
            assert simulation.get("y") == a + (b ^ ((1 << WIDTH) - 1 if s else 0)) + c


def test_what_is_marked_but_of_another_form_stays() -> None:
    text = rtlil.convert(Sums(marked=True, condition_twice=False), name="top")
    assert with_inverting_adders(text) == text
    assert "$alu" in with_inverting_adders(rtlil.convert(Sums(marked=True), name="top"))
