from collections import Counter

import pytest
from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl_ir.testing.samples import elementwise, matmul
from tg2hdl_lower import CompiledKernel, HostShape, family_named, plan_kernel
from tg2hdl_synth import estimate_design, part_named, synthesize
from tg2hdl_synth.estimate import convert, port_blocks
from tg2hdl_synth.families.ecp5.estimate import estimate_area
from tg2hdl_synth.rtlil import read_rtlil
from tg2hdl_synth.words import WordMemory, blocks_of, count_words
from tg2hdl_top.ports import PortPlan, build_port


class Parts(wiring.Component):
    def __init__(self):
        super().__init__(
            {"a": In(8), "b": In(8), "c": In(8), "s": In(1), "y": Out(10), "p": Out(16), "r": Out(4)}
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory_m = memory = Memory(shape=4, depth=256, init=[], attrs={"ram_style": "block"})
        read, write = memory.read_port(), memory.write_port()
        total, chosen = Signal(10), Signal(8)
        m.d.comb += [
            total.eq(self.a + self.b + self.c),
            chosen.eq(Mux(self.s, self.a, self.b)),
            read.addr.eq(chosen),
            write.addr.eq(self.c),
            self.r.eq(read.data),
        ]
        m.d.sync += [self.y.eq(total), self.p.eq(self.a * self.b)]
        return m


def test_words_of_a_module():
    words = count_words(read_rtlil(convert(Parts())))["top"]
    assert words.bits == Counter(add=8 + 9, inner=8, mux=8, register=10 + 16)
    assert words.products == [(8, 8)]
    assert words.memories == {
        "memory_m": WordMemory(4, 256, "block", reads=1, synchronous=True, written=True)
    }
    assert words.children == []


def test_a_product_takes_blocks_of_18_bits():
    assert [blocks_of(p) for p in ((8, 8), (18, 18), (24, 24), (18, 32))] == [1, 1, 4, 2]


@pytest.mark.parametrize(
    "kernel", [matmul(2, 16, 8), elementwise(300, "add", "int32"), elementwise(600, "mul", "int32")]
)
def test_estimate_is_near_the_netlist(kernel):
    design = CompiledKernel(plan_kernel(kernel))
    estimate = estimate_design(design, part_named("ecp5-45k"))
    found = synthesize(design, place=False).cells
    assert (estimate.dsp, estimate.bram) == (found["dsp"], found["bram"])
    assert estimate.ff == pytest.approx(found["ff"], rel=0.2)
    assert estimate.comb == pytest.approx(found["comb"], rel=0.5, abs=60)


def test_no_estimate_without_a_plan_or_for_another_family():
    assert estimate_design(Parts(), part_named("ecp5-45k")) is None
    assert estimate_design(CompiledKernel(plan_kernel(matmul(2, 4, 2))), part_named("ice40-hx8k")) is None


@pytest.mark.parametrize(("kind", "blocks"), [("uart", 2), ("spi", 3), ("udp", 4)])
def test_block_rams_of_a_host_port(kind, blocks):
    serves = HostShape(True, 1, (), (), (0,), program="net", identity="1", cycles=9)
    modules = read_rtlil(convert(build_port(PortPlan(kind, serves)), "top.port0"))
    assert port_blocks(modules, family_named("ecp5")) == blocks
    assert (
        port_blocks(
            {name.replace("port0", "kernel0"): m for name, m in modules.items()}, family_named("ecp5")
        )
        == 0
    )


def test_luts_of_a_host_port():
    """Yosys makes 898 LUTs of it."""
    serves = HostShape(True, 1, (), (), (0,), program="net", identity="1", cycles=9)
    text = convert(build_port(PortPlan("uart", serves)), "top.port0")
    assert estimate_area(text, 28).lut == pytest.approx(898, rel=0.2)
