"""A LiteX SoC with two accelerators, simulated by Verilator: both run, and each raises its interrupt.

    pip install litex==2024.12
    python benchmarks/export/litex_soc.py                the SoC's bus is Wishbone
    python benchmarks/export/litex_soc.py --bus axi-lite

The SoC has no CPU: a testbench in Verilog is the master of its bus. It reads the identity of each accelerator from the
CSRs of LiteX, enables the event of its interrupt, loads inputs, starts, waits for the interrupt, and compares all
results with the golden model. One accelerator has a Wishbone port, the other one AXI4-Lite, so that LiteX converts
between the two. The outcome goes to litex_soc.json. Icarus Verilog 11 does not get past the first cycle of LiteX's
Verilog.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import importlib.metadata
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from tinygrad import Tensor

import tg2hdl
from tg2hdl.bench import json_text
from tg2hdl.testbench.accesses import AccessOperation, register_accesses

RESULTS = Path(__file__).with_suffix(".json")
RNG = np.random.default_rng(3)
W = RNG.integers(-128, 128, (18, 5), dtype=np.int8)

BENCH = """\
`timescale 1ns / 1ps
module bench;
  reg clk = 0, rst = 1, cyc = 0, we = 0;
  reg [29:0] adr = 0;
  reg [31:0] dat_w = 0, address, data;
  wire [31:0] dat_r;
  wire ack, err;
  wire [1:0] irqs;
  reg [67:0] steps [0:{last}];  // operation, interrupt, address, data
  reg [2:0] operation;
  reg which;
  integer n, waited, checked = 0, wrong = 0;
  soc dut (.sys_clk(clk), .sys_rst(rst), .host_cyc(cyc), .host_stb(cyc), .host_we(we), .host_adr(adr), .host_sel(4'hf),
           .host_dat_w(dat_w), .host_dat_r(dat_r), .host_ack(ack), .host_err(err), .irqs(irqs));
  always #5 clk = !clk;
  task access(input is_write);
    begin
      cyc = 1;
      we = is_write;
      adr = address >> 2;
      dat_w = data;
      @(negedge clk);
      for (waited = 0; !(ack || err) && waited < 1000; waited = waited + 1) @(negedge clk);
      if (!ack || err) begin
        wrong = wrong + 1;
        $display("step %0d: no ACK at %h", n, address);
      end
      if (!is_write) begin
        checked = checked + 1;
        if (dat_r !== data) begin
          wrong = wrong + 1;
          $display("step %0d, address %h: %h, expected %h", n, address, dat_r, data);
        end
      end
      cyc = 0;
      @(negedge clk);
    end
  endtask
  initial begin
    repeat (8) @(negedge clk);
    rst = 0;
    repeat (8) @(negedge clk);
    for (n = 0; n <= {last}; n = n + 1) begin
      {{operation, which, address, data}} = steps[n];
      case (operation)
        0: access(1);
        1: access(0);
        2: begin
          for (waited = 0; !irqs[which] && waited < 20000; waited = waited + 1) @(negedge clk);
          checked = checked + 1;
          if (!irqs[which]) wrong = wrong + 1;
        end
        default: begin
          checked = checked + 1;
          if (irqs[which]) wrong = wrong + 1;
        end
      endcase
    end
    if (wrong != 0 || checked != {checks}) $display("FAILED: %0d of %0d are wrong", wrong, checked);
    else $display("PASSED: %0d values", checked);
    $finish;
  end
  initial begin
{contents}
  end
endmodule
"""
WRITE, CHECK, WAIT, QUIET = range(4)


def accelerators(folder: Path) -> dict[str, Any]:
    """Two designs, exported as `first` and `second`."""

    def first(x: Any) -> Any:
        return (x.cast("int32") @ Tensor(W).cast("int32")).relu()

    def second(x: Any) -> Any:
        return x * 3 - 7

    found = {}
    for name, model, example, port in (
        ("first", first, np.zeros((1, 18), np.int8), "wishbone"),
        ("second", second, np.zeros(9, np.int16), "axi-lite"),
    ):
        options = tg2hdl.CompileOptions(ports=(port,))
        found[name] = tg2hdl.compile(model, example, options=options, name=name)
        found[name].export("litex", folder / name, name=name)
        sys.path.insert(0, str(folder / name))
    return found


def build_soc(folder: Path, bus: str) -> Any:
    """The SoC, whose Verilog is ``soc.v``."""
    from litex.build.generic_platform import Pins, Subsignal
    from litex.build.sim.platform import SimPlatform
    from litex.soc.integration.soc_core import SoCMini
    from litex.soc.interconnect import wishbone
    from migen import Cat, ClockDomain, Module

    widths = {"cyc": 1, "stb": 1, "we": 1, "adr": 30, "sel": 4, "dat_w": 32, "dat_r": 32, "ack": 1, "err": 1}
    host = [Subsignal(name, Pins(width)) for name, width in widths.items()]
    pins = [("sys_clk", 0, Pins(1)), ("sys_rst", 0, Pins(1)), ("irqs", 0, Pins(2)), ("host", 0, *host)]
    platform = SimPlatform("SIM", pins, name="soc")
    soc = SoCMini(platform, clk_freq=int(100e6), bus_standard=bus, ident="", ident_version=False)
    crg = Module()
    crg.clock_domains.cd_sys = ClockDomain()
    crg.comb += [
        crg.cd_sys.clk.eq(platform.request("sys_clk")),
        crg.cd_sys.rst.eq(platform.request("sys_rst")),
    ]
    soc.submodules.crg = crg
    pads, master = platform.request("host"), wishbone.Interface(data_width=32, adr_width=30)
    for name in widths:
        pad, signal = getattr(pads, name), getattr(master, name)
        soc.comb += pad.eq(signal) if name in ("dat_r", "ack", "err") else signal.eq(pad)
    soc.bus.add_master("host", master)
    irqs = []
    for number, name in enumerate(("first", "second")):
        add = getattr(importlib.import_module(f"{name}_litex"), f"add_{name}")
        module = add(soc, origin=0x4000_0000 + 0x1_0000 * number)
        irqs.append(module.ev.irq)
    soc.comb += platform.request("irqs").eq(Cat(*irqs))
    soc.finalize()
    platform.get_verilog(soc, name="soc").write(str(folder / "soc.v"))
    return soc


def steps(found: dict[str, Any], soc: Any, runs: int) -> list[tuple[int, int, int, int]]:
    """Steps of the testbench for both accelerators, one after the other."""
    from litex.soc.integration.export import get_csr_json

    described = json.loads(get_csr_json(soc.csr.regions, soc.constants, soc.mem_regions))
    registers, rows = described["csr_registers"], []
    for number, (name, accelerator) in enumerate(found.items()):
        identity = int(accelerator.design.identity or "0", 16)
        base = described["memories"][name]["base"]
        for half, value in (("low", identity & 0xFFFFFFFF), ("high", identity >> 32)):
            rows.append((CHECK, number, registers[f"{name}_id_{half}"]["addr"], value))
        rows.append((WRITE, number, registers[f"{name}_ev_enable"]["addr"], 1))
        for access in register_accesses(accelerator, runs):
            if access.operation == AccessOperation.RUN:
                rows += [
                    (QUIET, number, 0, 0),
                    (WRITE, number, base + 0x34, 1),
                    (WAIT, number, 0, 0),
                    (CHECK, number, base + 0x3C, 1),
                    (WRITE, number, base + 0x3C, 1),
                    (CHECK, number, base + 0x3C, 0),
                    (QUIET, number, 0, 0),
                ]
            else:
                is_write = access.operation == AccessOperation.WRITE
                rows.append((WRITE if is_write else CHECK, number, base + access.address, access.data))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--bus", choices=["wishbone", "axi-lite"], default="wishbone")
    parser.add_argument("--runs", type=int, default=4)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        found = accelerators(folder)
        rows = steps(found, build_soc(folder, given.bus), given.runs)
        lines = [
            f"    steps[{n}] = {{3'd{kind}, 1'd{which}, 32'h{address:x}, 32'h{data:x}}};"
            for n, (kind, which, address, data) in enumerate(rows)
        ]
        checks = sum(kind != WRITE for kind, *_ in rows)
        text = BENCH.format(last=len(rows) - 1, checks=checks, contents="\n".join(lines))
        (folder / "bench.v").write_text(text)
        sources = ["soc.v", "bench.v"]
        sources += [f"{name}/rtl/{name}{part}.v" for name in found for part in ("_core", "")]
        verilator = shutil.which("verilator") or sys.exit("Verilator is not installed")
        flags = ["--binary", "--timing", "-Wno-fatal", "-O0", "--top", "bench", "-Mdir", "obj"]
        commands = [[verilator, *flags, *sources], ["obj/Vbench"]]
        for command in commands:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if done.returncode:
                print(done.stdout, done.stderr)
                return 1
        print(done.stdout)
        passed = "PASSED" in done.stdout
        outcome = {
            "date": datetime.date.today().isoformat(),
            "bus": given.bus,
            "accelerators": {name: a.design.ports[0].kind for name, a in found.items()},
            "runs": given.runs,
            "values checked": checks,
            "passed": passed,
            "litex": importlib.metadata.version("litex"),
            "verilator": subprocess.run(
                [verilator, "--version"], capture_output=True, text=True
            ).stdout.strip(),
        }
        known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        RESULTS.write_text(json_text(known | {given.bus: outcome}))
        return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
