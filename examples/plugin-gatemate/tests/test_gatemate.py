"""A family from a plugin, from the hook to a netlist, place and route, and a bitstream."""

import importlib.util
import re

import pytest
from amaranth import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from tg2hdl_gatemate import plugin
from tg2hdl_gatemate.platform import GateMateA1EVB
from tg2hdl_gatemate.tools import GateMate, product_cells

from tg2hdl_ir import BoardDef, ToolMissingError, registry
from tg2hdl_synth import part_named, synthesize
from tg2hdl_synth.boards import bitstream
from tg2hdl_synth.boards.board_names import board_named
from tg2hdl_synth.boards.pll import pll_settings
from tg2hdl_synth.families import tools_of
from tg2hdl_synth.testing import check_flow
from tg2hdl_top.ports import LinkSettings
from tg2hdl_top.ports.uart import UartPort

WHEEL = "yowasp_nextpnr_himbaechel_gatemate"
with_nextpnr = pytest.mark.skipif(
    importlib.util.find_spec(WHEEL) is None,
    reason=f"pip install {WHEEL.replace('_', '-')}: place and route of GateMate",
)


@pytest.fixture(autouse=True)
def family():
    with registry().extended(plugin, distribution="tg2hdl-gatemate"):
        yield plugin.GATEMATE


class Echo(wiring.Component):
    """The serial line, back."""

    uart: Out(wiring.Signature({"rx": In(1), "tx": Out(1), "divisor": In(16)}))

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.uart.tx.eq(self.uart.rx)
        return m


class Product(wiring.Component):
    def __init__(self, a, b):
        super().__init__({"a": In(signed(a)), "b": In(signed(b)), "y": Out(signed(a + b))})

    def elaborate(self, platform):
        m = Module()
        a, b = Signal.like(self.a), Signal.like(self.b)
        m.d.sync += [a.eq(self.a), b.eq(self.b), self.y.eq(a * b)]
        return m


def test_the_hook_brings_everything(family):
    (part,), (board,) = family.parts, family.boards
    assert part_named("gatemate-a1") is part
    assert registry().board("gatemate-evb") is board
    assert isinstance(tools_of("gatemate"), GateMate)
    assert isinstance(board, BoardDef)
    platform = GateMateA1EVB()
    assert [GateMate().part_of(each) for each in (platform, None)] == [part.name, None]
    assert board_named(f"{GateMateA1EVB.__module__}:GateMateA1EVB") is board


@pytest.mark.parametrize("wanted", [12, 25, 36.4, 48, 100, 250])
def test_the_pll_is_within_its_limits_and_close_below(wanted):
    found = pll_settings("gatemate", 10.0, wanted)
    values = dict(found.values)
    assert 500 < 10 * values["N"] <= 1000
    assert values["M"] == 1 or values["M"] % 2 == 0
    assert found.frequency == pytest.approx(10 * values["N"] / (2 * values["M"]))
    assert 0.95 * wanted < found.frequency <= wanted


def test_missing_tools_are_named(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == WHEEL else found(name))
    with pytest.raises(ToolMissingError) as caught:
        bitstream.check_board("gatemate-evb")
    assert str(caught.value) == (
        "missing tool: the Python package yowasp-nextpnr-himbaechel-gatemate is not installed\n"
        '  hint: pip install "tg2hdl-gatemate[tools]"'
    )


def test_the_script_of_the_board(tmp_path):
    tools = tools_of("gatemate")
    settings = pll_settings("gatemate", 10.0, 24.0)
    with bitstream.tool_environment("gatemate", tmp_path):
        top = bitstream._OnBoard(Echo(), tools, settings, UartPort, LinkSettings(12))
        plan = GateMateA1EVB().prepare(top, name="top", **tools.build_options(part_named("gatemate-a1"), 24))
    assert re.search(r'Net "clk10_0__io" Loc = "IO_SB_A8" \| SCHMITT_TRIGGER=true;', plan.files["top.ccf"])
    assert re.search(r'Net "uart_0__tx__io" Loc = "IO_SA_B6";', plan.files["top.ccf"])
    assert 'parameter \\OUT_CLK "24.000000"' in plan.files["top.il"]
    assert "--vopt out=top.txt" in plan.files["build_top.sh"]


@with_nextpnr
def test_the_suite_of_families(family):
    check_flow(family, family.parts[0], simulate=False)


@with_nextpnr
@pytest.mark.parametrize(("a", "b"), [(8, 5), (16, 16)])
def test_cpes_of_products_are_those_of_nextpnr(a, b):
    result = synthesize(Product(a, b), "gatemate-a1", seeds=1)
    assert result.utilization["CPE_MULT"][0] == product_cells(a, b)
    assert result.used("comb") == result.utilization["CPE_LT"][0] + 2 * product_cells(a, b)
    assert result.utilization["GPIO"][0] == 3  # clock, and both ends of the chain of ports


@with_nextpnr
@pytest.mark.slow
def test_a_bitstream(tmp_path):
    echo = bitstream.BoardComponent("echo", Echo, {}, "smaller")
    found = bitstream.build_bitstream(echo, "gatemate-evb", tmp_path, clock=24.0)
    assert found.path.name == "gatemate-evb.bit"
    assert found.path.stat().st_size > 1000
    assert found.clock == 24.0 <= found.fmax
    assert found.utilization["PLL"][0] == 1
