"""Single bits in one word."""

from __future__ import annotations

import random

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl_sim import SimulationModel, open_batch, open_simulation
from tg2hdl_sim.levelized.lowering import lower
from tg2hdl_sim.levelized.packing import pack_bits
from tg2hdl_sim.levelized.simplify import evaluation_order

WIDTH = 32


class LeadingZeros(wiring.Component):
    """A tree over the bits of a register, as floating-point units have it."""

    def __init__(self):
        super().__init__({"value": In(WIDTH), "spare": In(3), "count": Out(6), "held": Out(WIDTH)})

    def elaborate(self, platform):
        m = Module()
        value, again = Signal(WIDTH), Signal(WIDTH)
        for bit in range(WIDTH):
            m.d.sync += value[bit].eq(self.value[bit])
            m.d.sync += again[bit].eq(value[bit] ^ self.spare[bit % 3])
        level = [(~bit, ()) for bit in reversed(value)]  # whether all bits are 0; how many lead
        while len(level) > 1:
            joined = []
            for (high, more), (low, less) in zip(level[::2], level[1::2], strict=True):
                bits = [Mux(high, b, a) for a, b in zip(more, less, strict=True)]
                joined.append((high & low, (*bits, high & ~low)))
            level = joined
        m.d.comb += [self.count.eq(Mux(level[0][0], WIDTH, Cat(*level[0][1]))), self.held.eq(again)]
        return m


def leading_zeros(value):
    return WIDTH - value.bit_length()


def test_a_tree_over_bits_becomes_words():
    design = lower(SimulationModel(LeadingZeros()).elaboration)
    before = len(evaluation_order(design))
    pack_bits(design)
    assert before > 150
    assert len(evaluation_order(design)) < before / 2


def values(count):
    rng = random.Random(7)
    return [rng.getrandbits(WIDTH) >> rng.randint(0, WIDTH) for _ in range(count)]


def test_packed_bits_are_right():
    with open_simulation(SimulationModel(LeadingZeros()), "levelized") as sim:
        held = 0
        for value in [0, 1, 2**WIDTH - 1, *values(100)]:
            sim.set("value", value)
            sim.set("spare", 5)
            before = held
            sim.step()
            assert sim.get("count") == leading_zeros(value)
            assert sim.get("held") == before ^ sum((5 >> bit % 3 & 1) << bit for bit in range(WIDTH))
            held = value


@pytest.mark.parametrize("varying", [["value"], ["spare"], ["value", "spare"]])
def test_packed_bits_are_right_for_each_input_of_a_batch(varying):
    with open_batch(SimulationModel(LeadingZeros()), varying) as batch:
        each = values(batch.size)
        if "value" in varying:
            batch.set_each("value", each)
        else:
            batch.set("value", each[0])
        spare = [k % 8 for k in range(batch.size)]
        if "spare" in varying:
            batch.set_each("spare", spare)
        else:
            batch.set("spare", 3)
        batch.step(2)
        shown = each if "value" in varying else each[:1] * batch.size
        assert batch.get_each("count") == [leading_zeros(value) for value in shown]
        wanted = [
            value ^ sum(((s if "spare" in varying else 3) >> bit % 3 & 1) << bit for bit in range(WIDTH))
            for value, s in zip(shown, spare, strict=True)
        ]
        assert batch.get_each("held") == wanted


class BitsOfOneTable(wiring.Component):
    """Lanes that read bits of one memory, each at its own address, and extend them."""

    def __init__(self):
        super().__init__({"clear": In(1), **{f"o{k}": Out(9) for k in range(8)}})

    def elaborate(self, platform):
        m = Module()
        m.submodules.table = table = Memory(shape=1, depth=4, init=[0, 1, 1, 0])
        m.d.comb += table.write_port().en.eq(self.clear)
        for k in range(8):
            port = table.read_port(domain="comb")
            at, held = Signal(9, name=f"at{k}", init=11 * k), Signal(9, name=f"held{k}")
            m.d.sync += at.eq(at + 5)
            m.d.comb += port.addr.eq(at[3:5])
            m.d.sync += held.eq((port.data.replicate(9) ^ at) + 3)
            m.d.comb += getattr(self, f"o{k}").eq(held)
        return m


def test_lanes_that_read_bits_of_one_memory():
    with open_simulation(SimulationModel(BitsOfOneTable()), "levelized") as sim:
        for step in range(8):
            sim.step(1)
            places = [(11 * k + 5 * step) & 511 for k in range(8)]
            extended = [511 if at >> 3 & 3 in (1, 2) else 0 for at in places]
            expected = [((e ^ at) + 3) & 511 for e, at in zip(extended, places, strict=True)]
            assert [sim.get(f"o{k}") for k in range(8)] == expected
