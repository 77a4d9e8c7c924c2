"""Registers one after the other."""

from __future__ import annotations

import random

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_sim import SimulationModel, open_batch, open_simulation
from tg2hdl_sim.levelized.delays import merge_delays
from tg2hdl_sim.levelized.lowering import lower
from tg2hdl_sim.levelized.packing import varying_nodes
from tg2hdl_sim.levelized.simplify import evaluation_order

STAGES, INITS = 30, [3, 0, 7, 5]


class Delay(wiring.Component):
    """A delay with initial values, and a tap in the middle."""

    def __init__(self, width):
        self.width = width
        super().__init__({"value": In(width), "last": Out(width), "middle": Out(width)})

    def elaborate(self, platform):
        m = Module()
        ones = (1 << self.width) - 1
        before, self.inits = self.value, [INITS[k % 4] & ones for k in range(STAGES)]
        for k in range(STAGES):
            stage = Signal(self.width, init=self.inits[k], name=f"stage{k}")
            m.d.sync += stage.eq(before)
            before = stage
            if k == 11:
                m.d.comb += self.middle.eq(stage)
        m.d.comb += self.last.eq(before)
        return m


@pytest.mark.parametrize(("width", "words"), [(1, 1), (4, 2), (9, 6), (30, 30)])
def test_chains_become_words(width, words):
    design = lower(SimulationModel(Delay(width)).elaboration)
    order = evaluation_order(design)
    assert merge_delays(design, order, ()) == (words < STAGES)
    registers = [n for n in evaluation_order(design) if design.nodes[n].op == "ff"]
    assert len(registers) == words


def test_varying_words_that_move_in_one_instruction_stay():
    design = lower(SimulationModel(Delay(8)).elaboration)
    assert not merge_delays(design, evaluation_order(design), varying_nodes(design, ["value"]))


@pytest.mark.parametrize("width", [1, 4, 9, 33])
def test_delays_are_right(width):
    rng, design = random.Random(width), Delay(width)
    values = [rng.getrandbits(width) for _ in range(80)]
    with open_simulation(SimulationModel(design), "levelized") as sim:
        history = list(reversed(design.inits))
        for value in values:
            assert sim.get("last") == history[-STAGES]
            assert sim.get("middle") == history[-12]
            sim.set("value", value)
            sim.step()
            history.append(value)


@pytest.mark.parametrize("width", [1, 4, 9])
def test_delays_are_right_for_each_input_of_a_batch(width):
    rng = random.Random(width)
    with open_batch(SimulationModel(Delay(width)), ["value"]) as batch:
        rows = [[rng.getrandbits(width) for _ in range(batch.size)] for _ in range(50)]
        for k, row in enumerate(rows):
            if k >= STAGES:
                assert batch.get_each("last") == rows[k - STAGES]
                assert batch.get_each("middle") == rows[k - 12]
            batch.set_each("value", row)
            batch.step()
