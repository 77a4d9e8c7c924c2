"""Block RAMs that plans count are those that Yosys makes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from amaranth import Const, Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from random_roms import rom
from tg2hdl_ir import TargetDef
from tg2hdl_lower import kind_named
from tg2hdl_lower.memory.blocks import block_rams
from tg2hdl_synth import part_named, synthesize
from tg2hdl_synth.families.ecp5 import ECP5
from tg2hdl_synth.families.ice40 import ICE40

SHAPES = [
    # width, words, read ports, lanes with a write enable each; 0 for a ROM
    *((128, 512, 1, 1), (128, 512, 1, 16), (352, 512, 1, 16), (128, 1000, 1, 1), (176, 1000, 1, 8)),
    *((128, 1500, 1, 16), (128, 3000, 1, 16), (176, 3000, 1, 8), (64, 200, 1, 8), (88, 200, 1, 4)),
    *((40, 512, 2, 0), (128, 400, 2, 0), (18, 1000, 2, 0), (128, 1000, 3, 0), (128, 400, 3, 0)),
    *((40, 400, 2, 1), (128, 1000, 2, 1)),
]
SMALL = [
    (16, 256, 1, 2),
    (22, 256, 1, 2),
    (32, 500, 1, 4),
    (32, 1000, 2, 0),
    (40, 300, 1, 1),
    (8, 3000, 1, 1),
]
MANY = 10**5


class Memories(wiring.Component):
    """Memories of these shapes, each with registers around it."""

    def __init__(self, shapes: list[tuple[int, int, int, int]]) -> None:
        self.shapes = shapes
        super().__init__({"a": In(16), "b": In(16), "e": In(32), "d": In(600), "q": Out(600)})

    def elaborate(self, platform: object) -> Module:
        m, total, rng = Module(), Const(0, 600), random.Random(0)
        for n, (width, words, reads, lanes) in enumerate(self.shapes):
            contents = [] if lanes else [rng.getrandbits(width) for _ in range(words)]
            memory = Memory(shape=unsigned(width), depth=words, init=contents, attrs={"ram_style": "block"})
            m.submodules[f"memory_{n}"] = memory
            if lanes:
                port = memory.write_port(granularity=width // lanes if lanes > 1 else None)
                for pin, source in ((port.en, self.e), (port.addr, self.a + n), (port.data, self.d)):
                    register = Signal(len(pin))
                    m.d.sync += register.eq(source)
                    m.d.comb += pin.eq(register)
            for number in range(reads):
                read, address, word = memory.read_port(), Signal(16), Signal(width)
                m.d.sync += [address.eq(self.b + 7 * number + n), word.eq(read.data)]
                m.d.comb += read.addr.eq(address)
                total = total ^ (word << number)
        m.d.sync += self.q.eq(total)
        return m


@pytest.mark.parametrize(
    ("part", "figures", "shapes", "packed"),
    [
        ("ecp5-85k", ECP5.memory, SHAPES, False),
        pytest.param("ecp5-85k", ECP5.memory.packed(), SHAPES, True, marks=pytest.mark.slow),
        ("ice40-hx8k", ICE40.memory, SMALL, False),
    ],
    ids=["ecp5", "ecp5-packed", "ice40"],
)
def test_blocks_are_those_of_yosys(part, figures, shapes, packed):
    target: TargetDef = replace(part_named(part), bram=MANY, lut=MANY, ff=MANY)
    made = synthesize(Memories(shapes), target, place=False, pack_registers=packed).by_memory
    counted = {
        str(n): block_rams(
            width, words, reads, figures, written=lanes > 0, lane=width // lanes if lanes > 1 else 0
        )
        for n, (width, words, reads, lanes) in enumerate(shapes)
    }
    assert counted == made


DEEP = [(128, 2304, 1, False), (80, 3000, 2, False), (72, 5120, 1, True), (108, 1280, 2, True)]
"""Bits of a word, words, read ports, whether kernels write it."""


class Planned(wiring.Component):
    """Memories of these shapes, as a design builds them."""

    def __init__(self, shapes: list[tuple[int, int, int, bool]]) -> None:
        self.memories = [rom(f"memory{n}", *shape) for n, shape in enumerate(shapes)]
        super().__init__({"a": In(16), "d": In(128), "e": In(1), "q": Out(128)})

    def elaborate(self, platform: object) -> Module:
        m, total, address = Module(), Const(0, 128), Signal(16)
        m.d.sync += address.eq(self.a)
        for memory in self.memories:
            built = kind_named(memory.kind).build(m, memory)
            if memory.role.written:
                enable = self.e.replicate(memory.layout.lanes)
                built.write(m, self.a[: memory.layout.address_width], self.d[: memory.word_width], enable)
            for port in memory.ports:
                total = total ^ built.read(m, port, (address + 7 * port)[: memory.layout.address_width])
        m.d.sync += self.q.eq(total)
        return m


def test_pieces_are_those_of_yosys():
    target: TargetDef = replace(part_named("ecp5-85k"), bram=MANY, lut=MANY, ff=MANY)
    component = Planned(DEEP)
    made = synthesize(component, target, place=False).by_memory
    for memory in component.memories:
        assert len(memory.pieces) > 1
        assert made[memory.name] == memory.area.bram, memory.name
