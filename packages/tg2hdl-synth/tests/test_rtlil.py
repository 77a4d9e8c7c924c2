"""The reader of RTLIL finds what Yosys finds in the same text."""

import json
from pathlib import Path

import pytest
from amaranth import Module, Mux, Signal, signed
from amaranth.back import rtlil
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_synth.netlist import free_collisions
from tg2hdl_synth.rtlil import edited, read_rtlil, top_name
from tg2hdl_synth.tools import run_tool


class Design(wiring.Component):
    """Memories, products, processes with nested cases, slices and concatenations, below and in the top."""

    def __init__(self) -> None:
        super().__init__({"a": In(signed(8)), "select": In(3), "p": Out(signed(24)), "q": Out(16)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.inner = inner = Module()
        words = memory.Memory(shape=16, depth=40, init=[7, 65535], attrs={"ram_style": "block"})
        inner.submodules.words = words
        read, write = words.read_port(), words.write_port()
        held = Signal(signed(16), init=-3)
        inner.d.comb += [read.addr.eq(self.select), write.addr.eq(self.a), write.data.eq(held)]
        inner.d.comb += [write.en.eq(self.select[0]), self.q.eq(read.data[2:] + write.addr)]
        with m.Switch(self.select):
            with m.Case(1):
                m.d.sync += held.eq(self.a)
            with m.Case(2, 3), m.If(self.a[0]):
                m.d.sync += held[:4].eq(self.a)
            with m.Default():
                m.d.comb += self.p.eq(Mux(self.select[2], held * self.a, -held))
        return m


@pytest.fixture(scope="module")
def text() -> str:
    return rtlil.convert(Design(), name="top", emit_src=False)


def test_modules_and_their_contents(text: str) -> None:
    modules = read_rtlil(text)
    assert top_name(modules) == "top"
    (words,) = (m for module in modules.values() for m in module.memories.values())
    assert (words.width, words.depth, words.attributes) == (16, 40, {"ram_style": "block"})
    (product,) = (c for module in modules.values() for c in module.cells if c.kind == "$mul")
    assert text[slice(*product.span)].startswith("  cell $mul ")
    assert text[slice(*product.span)].endswith("\n  end\n")
    assert modules["top"].initial == {"held": f"{-3 & 0xFFFF:016b}"}
    assert sum(m.choices for m in modules.values()) == 16 + 4 + 24 + 16, "in the switch, and by the reset"


def test_everything_that_yosys_reads(text: str, tmp_path: Path) -> None:
    (tmp_path / "design.il").write_text(text)
    script = "read_rtlil design.il; proc -noopt; write_json design.json"
    run_tool("yosys", ["-q", "-p", script], tmp_path, log="yosys.log")
    expected = json.loads((tmp_path / "design.json").read_text())["modules"]
    modules = read_rtlil(text)
    assert modules.keys() == expected.keys()
    compared = 0
    for name, module in modules.items():
        there = expected[name]
        cells = {cell.name: cell for cell in module.cells}
        # Processes become cells whose names begin with the pass.
        assert cells.keys() == {c for c in there["cells"] if not c.startswith("$proc")}
        memories = {m.name: (m.width, m.depth) for m in module.memories.values()}
        assert memories == {n: (m["width"], m["size"]) for n, m in there.get("memories", {}).items()}
        for wire, width in module.wires.items():
            if wire in there["netnames"]:
                assert width == len(there["netnames"][wire]["bits"])
        for cell_name, cell in cells.items():
            match = there["cells"][cell_name]
            assert cell.kind == match["type"]
            assert cell.pins.keys() == match["connections"].keys()
            for parameter, value in cell.parameters.items():
                found = match["parameters"][parameter]
                assert value == (int(found, 2) if isinstance(value, int) else found), parameter
                compared += 1
    assert compared > 30


def test_text_is_edited_in_place() -> None:
    assert edited("abcdef", [((4, 5), "E"), ((0, 2), ""), ((3, 3), "+")]) == "c+dEf"


def test_collisions_become_undefined_in_synchronous_reads_alone(text: str) -> None:
    changed = free_collisions(text)
    assert text.count("COLLISION_X_MASK 1'0") == 1
    assert changed == text.replace("COLLISION_X_MASK 1'0", "COLLISION_X_MASK 1'1")
    asynchronous = text.replace("CLK_ENABLE 1", "CLK_ENABLE 0")
    assert free_collisions(asynchronous) == asynchronous
