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

from tg2hdl_fp32 import CATALOG, FP16, FP32, Compare, Mul, MultiplyAccumulate, Neg, StreamCore
from tg2hdl_fp32.__main__ import OPERATIONS, describe, main
from tg2hdl_fp32.catalog import latencies
from tg2hdl_fp32.multiplier import Multiplier18
from tg2hdl_fp32.testing import BitSlicedSimulation, check_unit, reference, vectors


@pytest.mark.parametrize("profile", ["comb", "fast"])
def test_stream_with_backpressure(profile):
    dut = StreamCore(Mul(FP16, profile=profile))
    operands = list(zip(*(c.tolist() for c in vectors(FP16, 2, 60, specials=False)), strict=True))
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
    assert results == [reference("mul", FP16, a, b) for a, b in operands]


@pytest.mark.parametrize("registers", [(), ("input",), ("input", "output"), ("input", "pipeline", "output")])
def test_multiplier_model(registers):
    a, b = np.random.default_rng(1).integers(0, 1 << 18, (2, 500))
    simulation = BitSlicedSimulation(Multiplier18(registers, target="ecp5_model"), 500)
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


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_command_describes_every_operation(operation):
    text = describe(operation, FP32, "comb", "generic")
    assert re.search(r"latency +0 cycles", text)


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
