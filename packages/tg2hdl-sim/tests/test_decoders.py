"""Decoded words, and assignments one after the other under one enable."""

from __future__ import annotations

import random

import pytest
from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_sim import SimulationModel, open_batch, open_simulation
from tg2hdl_sim.levelized.decoders import merge_decoders
from tg2hdl_sim.levelized.lowering import lower
from tg2hdl_sim.levelized.packing import pack_bits
from tg2hdl_sim.levelized.simplify import evaluation_order

BITS = 28


class Limit(wiring.Component):
    """A decoded distance with an enable for all bits, from the top on or from the bottom on."""

    def __init__(self, falls):
        super().__init__({"distance": In(5), "near": In(1), "hot": Out(BITS)})
        self.falls = falls

    def elaborate(self, platform):
        m = Module()
        bits = [(self.distance == k) & self.near for k in range(BITS)]
        m.d.sync += self.hot.eq(Cat(reversed(bits) if self.falls else bits))
        return m


class Counter(wiring.Component):
    """A counter whose assignments are all under one enable."""

    def __init__(self):
        super().__init__({name: In(1) for name in ("enable", "up", "clear", "preset")} | {"count": Out(8)})

    def elaborate(self, platform):
        m = Module()
        with m.If(self.enable):
            with m.If(self.up):
                m.d.sync += self.count.eq(self.count + 1)
            with m.If(self.preset):
                m.d.sync += self.count.eq(77)
            with m.If(self.clear):
                m.d.sync += self.count.eq(0)
        return m


@pytest.mark.parametrize("falls", [False, True])
def test_comparisons_with_all_constants_become_a_shift(falls):
    design = lower(SimulationModel(Limit(falls)).elaboration)
    assert sum(design.nodes[n].op == "eq" for n in evaluation_order(design)) == BITS
    merge_decoders(design)
    pack_bits(design)
    order = evaluation_order(design)
    assert not any(design.nodes[n].op == "eq" for n in order)
    assert len(order) < 12


@pytest.mark.parametrize("falls", [False, True])
def test_decoded_bits_are_right(falls):
    cases = [(distance, near) for distance in range(32) for near in (0, 1)]
    expected = []
    for distance, near in cases:
        place = BITS - 1 - distance if falls else distance
        expected.append(1 << place if near and distance < BITS else 0)
    model = SimulationModel(Limit(falls))
    with open_simulation(model, "levelized") as sim:
        for (distance, near), hot in zip(cases, expected, strict=True):
            sim.set("distance", distance)
            sim.set("near", near)
            sim.step()
            assert sim.get("hot") == hot
    with open_batch(model, ["distance", "near"], size=64) as batch:
        batch.set_each("distance", [distance for distance, _ in cases])
        batch.set_each("near", [near for _, near in cases])
        batch.step()
        assert [int(hot) for hot in batch.get_each("hot")] == expected


def test_one_enable_is_asked_once():
    design = lower(SimulationModel(Counter()).elaboration)
    muxes = [design.nodes[n] for n in evaluation_order(design) if design.nodes[n].op == "mux"]
    assert len(muxes) == 4  # one for each assignment, and the enable


def test_assignments_under_one_enable_are_right():
    rng = random.Random(3)
    with open_simulation(SimulationModel(Counter()), "levelized") as sim:
        count = 0
        for _ in range(300):
            given = {name: rng.getrandbits(1) for name in ("enable", "up", "clear", "preset")}
            for name, value in given.items():
                sim.set(name, value)
            sim.step()
            if given["enable"]:
                count = count + 1 & 0xFF if given["up"] else count
                count = 77 if given["preset"] else count
                count = 0 if given["clear"] else count
            assert sim.get("count") == count
