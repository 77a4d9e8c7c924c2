"""Equal components that are elaborated once."""

import random
from contextlib import contextmanager
from functools import partial

import pytest
from amaranth.hdl import Cat, ClockSignal, Instance, Module, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl_sim import SimulationModel, open_simulation
from tg2hdl_sim.amaranth_internals import nir
from tg2hdl_sim.levelized import lowering
from tg2hdl_sim.model import Elaboration

PORTS = {"en": In(1), "a": In(4), "b": In(4), "result": Out(9), "direct": Out(4)}


class Unit(wiring.Component):
    """A table that its reader sees change, registers, a choice, and an output with or without a register."""

    def __init__(self, step=3, registered=False):
        super().__init__(PORTS)
        self.step, self.registered = step, registered

    def elaborate(self, platform):
        m = Module()
        m.submodules.table = table = Memory(shape=8, depth=16, init=[7 * n for n in range(16)])
        write = table.write_port()
        read = table.read_port(transparent_for=(write,))
        m.d.comb += [write.addr.eq(self.a), write.data.eq(Cat(self.b, self.a)), write.en.eq(self.en)]
        m.d.comb += [read.addr.eq(self.b), read.en.eq(1)]
        lowest = Cat(self.a[bit] & ~self.a[:bit].any() for bit in range(4))
        domain = m.d.sync if self.registered else m.d.comb
        domain += self.direct.eq(lowest ^ self.b)
        with m.Switch(self.a[:2]):
            with m.Case(1):
                m.d.sync += self.result.eq(read.data + self.b)
            with m.Case(2):
                m.d.sync += self.result[2:6].eq(self.b)
            with m.Default():
                m.d.sync += self.result.eq(self.result + self.step)
        return m


class Placed(wiring.Component):
    """An instance of the unit's module; its outputs have another order."""

    def __init__(self):
        super().__init__(PORTS)

    def elaborate(self, platform):
        ports = [("i", "clk", ClockSignal()), ("i", "rst", ResetSignal(allow_reset_less=True))]
        ports += [("i", name, getattr(self, name)) for name in ("en", "a", "b")]
        return Instance("unit", *ports, ("o", "direct", self.direct), ("o", "result", self.result))


class Chain(wiring.Component):
    """Units that read each other's results, the first one also the last one's."""

    en: In(1)
    x: In(4)
    y: Out(9)
    z: Out(4)
    make = Unit

    def elaborate(self, platform):
        m = Module()
        units = [Chain.make() for _ in range(3)]
        for number, unit in enumerate(units):
            m.submodules[f"unit{number}"] = unit
            before = units[number - 1]
            a = self.x ^ before.result[1:5] if number == 0 else before.direct
            m.d.comb += [unit.en.eq(self.en if number else 1), unit.a.eq(a), unit.b.eq(before.result[:4])]
        m.d.comb += [self.y.eq(units[-1].result), self.z.eq(units[-1].direct)]
        return m


@contextmanager
def as_modules(step=3, registered=False):
    before, Chain.make = Chain.make, Placed
    try:
        yield {"unit": Unit(step, registered)}
    finally:
        Chain.make = before


@pytest.fixture
def lowered_alone(monkeypatch):
    monkeypatch.setattr(lowering, "FEWEST_CELLS", 0)


@pytest.fixture(params=[False, True], ids=["direct", "registered"])
def registered(request, monkeypatch, lowered_alone):
    monkeypatch.setattr(Chain, "make", partial(Unit, registered=request.param))
    return request.param


def steps(engine, model):
    rng, seen = random.Random(3), []
    with open_simulation(model, engine, cache=False) as sim:
        for number in range(60):
            sim.set("x", rng.getrandbits(4))
            sim.set("en", rng.getrandbits(1))
            if model.reset:
                sim.set("rst", number % 17 == 16)
            seen.append((sim.get("y"), sim.get("z")))
            sim.step()
        return seen, {name: sim.read_memory(name).tolist() for name in sim.memories}


@pytest.mark.parametrize("reset", [False, True])
def test_an_instance_computes_what_its_component_does(reset, registered):
    model = SimulationModel(Chain(), reset=reset, modules=partial(as_modules, registered=registered))
    found, expected = steps("levelized", model), steps("amaranth", SimulationModel(Chain(), reset=reset))
    assert found == expected
    assert len({y for y, _ in found[0]}) > 20, "the design does next to nothing"
    assert len(found[1]) == 3, "each instance has its own memory"


def test_a_module_is_elaborated_once_for_the_engine_and_in_each_place_for_a_waveform(monkeypatch, tmp_path):
    elaborated = []
    elaborate = Unit.elaborate
    monkeypatch.setattr(Unit, "elaborate", lambda *args: elaborated.append(1) or elaborate(*args))
    model = SimulationModel(Chain(), modules=as_modules)
    cells = model.compact.netlist.cells
    assert len(elaborated) == 1
    assert not any(isinstance(cell, nir.Instance) for cell in cells)
    with open_simulation(model, "levelized", vcd=tmp_path / "run.vcd", cache=False) as sim:
        sim.step(2)
    assert len(elaborated) == 4
    assert "unit2" in (tmp_path / "run.vcd").read_text()


def test_words_of_a_module_are_made_once_for_equal_constants_at_its_inputs(monkeypatch, lowered_alone):
    lowered = []
    lower_module = lowering._Library._lower
    monkeypatch.setattr(
        lowering._Library, "_lower", lambda *args: lowered.append(args[2]) or lower_module(*args)
    )
    model = SimulationModel(Chain(), modules=partial(as_modules, registered=True))
    design = lowering.lower(model.compact, pack=True)
    assert lowered == [(("en", 1),), ()], "the first unit is always enabled"
    assert len(design.segments) == 3
    assert design.settled


def test_a_module_with_a_path_from_input_to_output_becomes_a_part_of_the_design(lowered_alone):
    model = SimulationModel(Chain(), modules=as_modules)
    design = lowering.lower(model.compact, pack=True)
    assert not design.settled


def test_a_small_module_becomes_a_part_of_the_design():
    model = SimulationModel(Chain(), modules=partial(as_modules, registered=True))
    assert not lowering.lower(model.compact, pack=True).settled


def test_the_key_of_a_model_changes_with_a_module():
    one, other = (Elaboration(SimulationModel(Chain()), as_modules(step)) for step in (3, 2))
    assert one.content != other.content


def test_a_model_without_modules_has_one_elaboration():
    model = SimulationModel(Chain())
    assert model.compact is model.elaboration
