"""Errors of synthesis by their full texts; those of tools and families are tested beside their features."""

from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from tg2hdl_ir import Tg2hdlError
from tg2hdl_synth import Fit, show_hardware, synthesis_stats, synthesize, tools
from tg2hdl_synth.boards import bitstream
from tg2hdl_synth.boards.memory_pins import check_memory
from tg2hdl_synth.boards.pll import pll_settings
from tg2hdl_synth.estimate import convert
from tg2hdl_synth.families.ecp5.cell_models import bind_models
from tg2hdl_synth.floorplan import check_floorplan
from tg2hdl_synth.router_progress import RouterProgress
from tg2hdl_synth.rtlil import top_name
from tg2hdl_top import CompileOptions, TopModule, compile_program
from tg2hdl_top.testing import layer

BOARD = SimpleNamespace(name="board")


@cache
def design(port="uart"):
    return compile_program(layer()[0], CompileOptions(multipliers=4, ports=(port,)))


def built(folder, port="uart", clock=None):
    pytest.importorskip("amaranth_boards")
    return bitstream.build_bitstream(design(port), "ulx3s-12f", folder, clock=clock)


def platform(**widths):
    """A board whose SDRAM has pins of these widths."""
    pads = [SimpleNamespace(name=n, ios=[SimpleNamespace(names=[n] * w)]) for n, w in widths.items()]
    resources = {("sdram", 0): None} if widths else {}
    return SimpleNamespace(resources=resources, lookup=lambda *name: SimpleNamespace(ios=pads))


def streamed(port="sdram"):
    model = SimpleNamespace(bits=32, clock=100.0)
    return SimpleNamespace(
        streams_weights=True,
        external=SimpleNamespace(port=port, model=model),
        program=SimpleNamespace(name="net"),
    )


def other_clock():
    pytest.importorskip("amaranth_boards")
    board = bitstream.check_board("ulx3s-12f")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bitstream, "check_memory", lambda *arguments: 100.0)
        bitstream._clock(streamed(), board, 80.0)


def too_large(folder):
    fit = Fit(
        "ecp5-25k",
        {"lut": 2000, "bram": 1},
        {"lut": 1000, "bram": 10},
        100.0,
        ("LUTs: 2,000 of 1,000",),
        "quantize the model",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bitstream, "design_fits", lambda design, part: fit)
        built(folder)


def missed(folder, clock):
    results = [
        SimpleNamespace(fmax=fmax, limit="kernel 0 (gemv)", link_clocks=())
        for fmax in (9.0, 10.0, 15.0, 90.0)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bitstream, "_check_fits", lambda *arguments: None)
        patch.setattr(bitstream, "_run", lambda *arguments: results.pop())
        built(folder, clock=clock)


def failed(folder):
    log = folder / "log"
    log.write_text("ERROR: no such cell")
    raise bitstream._failure(log, folder, BOARD)


def follow():
    progress = RouterProgress("nextpnr-ecp5")
    for n in range(1, 10):
        progress.follow(f"Info:     iter={n} wires=5000 overused=40")


def two_widths():
    parameters = {"DATA_WIDTH_A": "1001", "DATA_WIDTH_B": "10010"}
    connections = {"CLKA": [2], "CLKB": [3]}
    bind_models({"cells": {"ram": {"type": "DP16KD", "parameters": parameters, "connections": connections}}})


def out_of_memory(folder):
    found = SimpleNamespace(name="yosys", code="print('mmap: Cannot allocate memory'); raise SystemExit(1)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tools, "_located", lambda tool: found)
        patch.setattr(
            "tg2hdl_ir.limits.memory_limit",
            lambda: "ulimit -v limits this process to 4.0 GB of address space",
        )
        tools.run_tool("yosys", [], folder, log="log")


CASES = {
    "baud rate": (
        lambda: bitstream.baud_for(100.0, 3_000_000),
        "bad input: a clock of 100 MHz makes no 3,000,000 baud\n"
        "  hint: choose another rate or clock: a bit takes 8 clock cycles or more",
    ),
    "usual baud rates": (
        lambda: bitstream.baud_for(0.001),
        "bad input: a clock of 0.001 MHz makes no usual baud rate\n  hint: ask for a faster clock",
    ),
    "no serial line": (
        lambda folder: built(folder, "native"),
        'bad input: design layer has no link to its host\n  hint: compile with ports=("uart",) or ports=("usb",)',
    ),
    "clock that was asked for": (
        lambda folder: missed(folder, 100.0),
        "synthesis: the timing does not hold: 90.0 MHz of 100.0 MHz\n"
        "  at: layer on ulx3s-12f\n"
        "  note: the slowest path is in kernel 0 (gemv)\n"
        "  hint: ask for a slower clock",
    ),
    "clock that was found": (
        lambda folder: missed(folder, None),
        "synthesis: the timing does not hold: 9.0 MHz of 9.4 MHz\n"
        "  at: layer on ulx3s-12f\n"
        "  note: the slowest path is in kernel 0 (gemv)\n"
        "  hint: ask for a slower clock with clock=",
    ),
    "clock of a memory": (
        other_clock,
        "bad input: the design counts the times of a memory at 100 MHz: clock=80 does not suit it\n"
        "  at: design net\n"
        "  hint: compile with memory=tg2hdl.SdramModel(clock=80), or build with --clock 80",
    ),
    "too large for a board": (
        too_large,
        "capacity: the design does not fit ulx3s-12f\n"
        "  note: estimated before place and route:\n"
        "  note: LUTs: 2,000 of 1,000\n"
        "  hint: quantize the model",
    ),
    "tool of a board": (
        failed,
        "synthesis: no bitstream could be made\n  at: board\n  note: ERROR: no such cell\n  hint: see ~/log",
    ),
    "port of a memory": (
        lambda: check_memory(streamed("axi4"), BOARD, platform(dq=16)),
        "bad input: the weights are in memory behind the port 'axi4', and board has an SDRAM\n"
        "  at: design net\n"
        '  hint: compile with memory_port="sdram" for a board with one, such as ulx3s-85f, or with '
        'weights="rom"',
    ),
    "pins of a memory": (
        lambda: check_memory(streamed(), BOARD, platform(dq=16, a=13, ba=2)),
        "bad input: the SDRAM of board has other pins than the model of the memory\n"
        "  at: design net\n"
        "  note: dq: 16 for 32\n"
        "  hint: compile with memory=tg2hdl.SdramModel(bits=16) for this board",
    ),
    "clock of a PLL": (
        lambda: pll_settings("ecp5", 25.0, 1.0),
        "bad input: the PLL of the ecp5 makes no suitable clock of 1 MHz or less from 25 MHz\n"
        "  hint: ask for a faster clock, or another baud rate",
    ),
    "no component": (
        lambda: convert(3),
        "bad input: int is not a design\n"
        "  hint: give an Amaranth component, such as accelerator.top or a CompiledKernel",
    ),
    "block RAM of two widths": (
        two_widths,
        "unsupported: a block RAM with ports of [9, 18] bits has no simulation model\n"
        "  at: memory_model0\n"
        "  hint: report the design: yosys gives both ports one width",
    ),
    "place of a floorplan": (
        lambda: check_floorplan({"lane0.*": (0.5, 1.5)}),
        "bad input: floorplan has 'lane0.*': (0.5, 1.5)\n"
        "  hint: give patterns of cells' names, as 'lane3.*', and places (x, y) from (0.0, 0.0) to (1.0, "
        "1.0)",
    ),
    "floorplan of another family": (
        lambda: synthesize(TopModule(design()), "ice40-up5k", floorplan={"lane0.*": (0.5, 0.5)}),
        "bad input: ice40-up5k takes no floorplan\n  hint: leave floorplan out",
    ),
    "routing": (
        follow,
        "capacity: the design cannot be routed in the part\n"
        "  at: nextpnr-ecp5\n"
        "  note: of 5,000 wires, 40 still had more than one net in the best of 9 rounds\n"
        "  hint: take a larger part or a smaller design",
    ),
    "no top": (
        lambda: top_name({}),
        "bad input: no module of the design is marked as the top\n"
        "  hint: give an Amaranth component, or RTLIL of one",
    ),
    "unknown module": (
        lambda folder: show_hardware(TopModule(design()), folder, module="core"),
        "bad input: module 'core' is not in the design\n"
        "  hint: choose one of: top, top.sequencer, top.kernel0, top.kernel1, top.port0, "
        "top.port0.receiver, top.port0.receiver.synchronizer, top.port0.transmitter, top.port0.bridge, "
        "top.port0.bridge.receiver, top.port0.bridge.receiver.check, top.port0.bridge.sender, "
        "top.port0.bridge.sender.check$22, top.port0.bridge.write_x, top.port0.bridge.write_x.walk, "
        "top.port0.bridge.read_y, top.port0.bridge.read_y.walk, "
        "top.multipliers, top.multipliers.m0, top.multipliers.m1, top.multipliers.m2, top.multipliers.m3",
    ),
    "no kernel": (
        lambda: synthesis_stats("kernel"),
        "bad input: 'kernel' is not a kernel\n  hint: give a CompiledKernel, a TopModule or a KernelIR",
    ),
    "memory of a tool": (
        out_of_memory,
        "synthesis: not enough memory for yosys\n"
        "  note: ulimit -v limits this process to 4.0 GB of address space\n"
        "  hint: WebAssembly reserves some 10 GB: ulimit -v unlimited",
    ),
}


@pytest.mark.parametrize(("make", "text"), CASES.values(), ids=CASES)
def test_text_of_an_error(tmp_path: Path, make, text):
    with pytest.raises(Tg2hdlError) as caught:
        make(tmp_path) if make.__code__.co_argcount else make()
    assert str(caught.value).replace(str(tmp_path), "~") == text
