import importlib.metadata
import json
import logging
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import replace

import pytest
from amaranth import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_ir import InputError
from tg2hdl_ir.plugins.hookspecs import ENTRY_POINT_GROUP
from tg2hdl_ir.testing.samples import matmul
from tg2hdl_lower import CompiledKernel, plan_kernel
from tg2hdl_lower.plan.values import LastFlag
from tg2hdl_synth import part_named, show_hardware
from tg2hdl_synth.estimate import convert
from tg2hdl_synth.families.ecp5.memory_shapes import SlicedMemory, sliced_memories
from tg2hdl_synth.families.ecp5.tools import Ecp5, suitable_placers
from tg2hdl_synth.naming import describe
from tg2hdl_synth.plugin import tg2hdl_commands, tg2hdl_families
from tg2hdl_synth.rtlil import read_rtlil


class Choice(wiring.Component):
    """One of three words: logic of five inputs before each register."""

    def __init__(self):
        super().__init__({n: In(16) for n in "abc"} | {"first": In(1), "second": In(1), "y": Out(16)})

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.y.eq(Mux(self.first, self.a, Mux(self.second, self.b, self.c)))
        return m


class Sum(wiring.Component):
    def __init__(self):
        super().__init__({"a": In(8), "b": In(8), "y": Out(9)})

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.y.eq((self.a + self.b) ^ (self.a & self.b))
        return m


@pytest.fixture
def no_graphviz(monkeypatch):
    from tg2hdl_synth import schematic

    monkeypatch.setattr(schematic.shutil, "which", lambda program: None)


@pytest.mark.parametrize("stage", ["rtl", "mapped"])
def test_schematic_without_graphviz(tmp_path, no_graphviz, stage):
    path = show_hardware(Sum(), tmp_path, stage=stage)
    assert path == tmp_path / "top.svg"
    texts = {e.text.split()[0] for e in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")}
    assert {"a", "b", "y"} <= texts
    assert texts & ({"add", "dff"} if stage == "rtl" else {"CCU2C", "TRELLIS_FF"})
    assert (tmp_path / "top.dot").is_file()


def test_schematic_that_needs_graphviz(tmp_path, no_graphviz, caplog):
    with caplog.at_level(logging.WARNING):
        assert show_hardware(Sum(), tmp_path, fmt="pdf") is None
    assert caplog.messages == [
        f"only {tmp_path / 'top.dot'} was written: a pdf needs Graphviz (the program dot)"
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"stage": "final"},
            "bad input: stage 'final' is unknown\n  hint: choose one of: rtl, opt, generic, mapped",
        ),
        ({"fmt": "gif"}, "bad input: format 'gif' is unknown\n  hint: choose one of: svg, pdf, png"),
    ],
)
def test_schematic_refuses(tmp_path, arguments, message):
    with pytest.raises(InputError) as caught:
        show_hardware(None, tmp_path, **arguments)
    assert str(caught.value) == message


def test_slices_cover_the_depth():
    widths = {
        depth: SlicedMemory("top", "m", 128, depth).slice_width for depth in (600, 2000, 6272, 16384, 100352)
    }
    assert widths == {600: 18, 2000: 9, 6272: 2, 16384: 1, 100352: 1}


def test_only_deep_memories_of_the_top_are_cut():
    text = (
        "module \\top\n  memory width 128 size 6272 \\memory_w1\n  memory width 32 size 128 \\memory_b1\nend\n"
        "module \\top.kernel0\n  memory width 8 size 9000 \\acc0\nend\n"
    )
    top = read_rtlil(text)["top"]
    assert [m.name for m in sliced_memories(top, halves=False)] == ["memory_w1"]
    assert [m.name for m in sliced_memories(top, halves=True)] == ["memory_w1", "memory_b1"]


def test_names_of_memories_and_unknown_cells():
    assert describe("memory_w1.0.3", None) == "memory w1"
    assert describe("something_TRELLIS_FF_Q", None) == "something_TRELLIS_FF_Q"


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("multipliers.m3.product_MULT18X18D_P0", "multiplier 3"),
        ("multipliers.result$19_TRELLIS_FF_Q_15_DI_MULT18X18D_P15", "product of a multiplier"),
    ],
)
def test_names_of_shared_multipliers(name, what):
    assert describe(name, None) == what


def test_plugin_is_light_and_registered():
    code = "import sys, tg2hdl_synth.plugin; print({'amaranth', 'tinygrad'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
    points = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    assert "tg2hdl_synth.plugin" in {p.value for p in points}
    assert [c.name for c in tg2hdl_commands()] == ["synth", "bench"]
    assert sum(len(family.parts) for family in tg2hdl_families()) == 8


def test_names_in_a_kernel():
    component = CompiledKernel(plan_kernel(matmul(2, 16, 8)))
    plan = component.plan
    (last,) = (n.number for n in plan.all(LastFlag))
    for register in (f"v{last}_s7", f"v{last}_active7", f"v{last}_clear7"):
        name = f"core.{register}_TRELLIS_FF_Q_1"
        assert describe(name, component) == f"matmul: last (%{last}), registered for stage 7"
    assert describe("core.acc0_TRELLIS_FF_Q", component) == "matmul: accumulator 0"


def test_full_parts_are_placed_by_static():
    part = part_named("ecp5-45k")
    assert suitable_placers({"comb": part.lut // 2, "ff": part.ff // 2}, part) == ("heap", "static")
    assert suitable_placers({"comb": part.lut // 2 + 1, "ff": 0}, part) == ("static",)
    assert suitable_placers({"comb": 0, "ff": part.ff // 2 + 1}, part) == ("static",)


@pytest.mark.parametrize(("lut", "wide"), [(1000, 16), (40, 0)])
def test_full_parts_have_no_wide_multiplexers(lut, wide):
    part = replace(part_named("ecp5-45k"), lut=lut)
    netlist = Ecp5().synthesize(convert(Choice(), "top"), part, progress=lambda message: None)
    cells = json.loads((netlist.folder / "netlist.json").read_text())["modules"]["top"]["cells"].values()
    types = Counter(cell["type"] for cell in cells)
    assert (types["PFUMX"], types["LUT4"], types["TRELLIS_FF"]) == (wide, 32, 16)
