"""Designs that exercise an engine."""

# mypy: disable-error-code="valid-type,misc"
# Amaranth evaluates the annotations, so they must not be postponed.

import random
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = [
    "ROM",
    "Combinational",
    "Everything",
    "Lane",
    "Loopy",
    "RandomDesign",
    "Resettable",
    "Selections",
    "TwoClocks",
]

ROM = [(-1) ** i * 97 * i for i in range(20)]


class Lane(wiring.Signature):
    """Eight bits in each direction."""

    def __init__(self) -> None:
        super().__init__({"x": Out(8), "y": In(8)})


class Everything(wiring.Component):
    """Wide and signed ports, a counter, memories of all kinds, nested interfaces."""

    start: In(1)
    target: In(16, init=9)
    count: Out(16)
    done: Out(1)
    a: In(70)
    b: Out(70)
    s: In(signed(5))
    t: Out(signed(7))
    deep_w: In(wiring.Signature({"addr": Out(7), "data": Out(signed(6)), "en": Out(1)}))
    deep_r: In(wiring.Signature({"addr": Out(7), "data": In(signed(6))}))
    deep_q: In(wiring.Signature({"addr": Out(7), "data": In(signed(6))}))
    wide_w: In(wiring.Signature({"addr": Out(4), "data": Out(100), "en": Out(4)}))
    wide_r: In(wiring.Signature({"addr": Out(4), "data": In(100), "en": Out(1)}))
    rom_addr: In(5)
    rom_data: Out(signed(12))
    lanes: Out(Lane()).array(2)

    def __init__(self) -> None:
        super().__init__()
        self.deep = Memory(shape=signed(6), depth=100, init=[1, -2, 3])
        self.wide = Memory(shape=unsigned(100), depth=16, init=[1 << 99])
        self.rom = Memory(shape=signed(12), depth=20, init=ROM)

    def elaborate(self, platform: Any) -> Module:
        """Return the design."""
        m = Module()
        m.submodules.deep, m.submodules.wide, m.submodules.rom = self.deep, self.wide, self.rom
        running = Signal()
        with m.If(self.start):
            m.d.sync += [running.eq(1), self.count.eq(0)]
        with m.Elif(running):
            m.d.sync += [self.count.eq(self.count + 1), running.eq(self.count + 1 != self.target)]
        m.d.comb += self.done.eq((self.count == self.target) & ~running)
        m.d.sync += self.b.eq(self.a + 1)
        m.d.comb += self.t.eq(self.s * 3)

        write, read, query = (
            self.deep.write_port(),
            self.deep.read_port(),
            self.deep.read_port(domain="comb"),
        )
        m.d.comb += [
            Cat(write.addr, write.data, write.en).eq(Cat(self.deep_w.addr, self.deep_w.data, self.deep_w.en)),
            read.addr.eq(self.deep_r.addr),
            self.deep_r.data.eq(read.data),
            query.addr.eq(self.deep_q.addr),
            self.deep_q.data.eq(query.data),
        ]
        write = self.wide.write_port(granularity=25)
        read = self.wide.read_port(transparent_for=(write,))
        m.d.comb += [
            write.addr.eq(self.wide_w.addr),
            write.data.eq(self.wide_w.data),
            write.en.eq(self.wide_w.en),
            read.addr.eq(self.wide_r.addr),
            read.en.eq(self.wide_r.en),
            self.wide_r.data.eq(read.data),
        ]
        read = self.rom.read_port()
        m.d.comb += [read.addr.eq(self.rom_addr), self.rom_data.eq(read.data)]
        for lane in self.lanes:
            m.d.sync += lane.x.eq(lane.y ^ 0x55)
        return m


class Loopy(wiring.Component):
    """No combinational loop, although whole vectors depend on each other."""

    a: In(4)
    clear: In(1)
    y: Out(4)
    total: Out(8)

    def elaborate(self, platform: Any) -> Module:
        """Return the design."""
        m = Module()
        x = Signal(4)
        m.d.comb += [
            x[0].eq(self.a[0]),
            self.y[0].eq(x[0]),
            x[1].eq(self.y[0] ^ self.a[1]),
            self.y[1].eq(x[1]),
            x[2].eq(self.y[1] | self.a[2]),
            self.y[2:].eq(x[2:]),
            x[3].eq(self.y[2]),
        ]
        m.d.sync += self.total.eq(Mux(self.clear, 0, self.total + self.y))
        return m


class Combinational(wiring.Component):
    """No clock at all."""

    a: In(8)
    y: Out(9)

    def elaborate(self, platform: Any) -> Module:
        """Return the design."""
        m = Module()
        m.d.comb += self.y.eq(self.a + 1)
        return m


class Selections(wiring.Component):
    """Bits of a signed value at a variable offset."""

    a: In(signed(12))
    place: In(4)
    bits: Out(3)
    word: Out(4)

    def elaborate(self, platform: Any) -> Module:
        """Return the design."""
        m = Module()
        m.d.comb += [
            self.bits.eq(self.a.bit_select(self.place, 3)),
            self.word.eq(self.a.word_select(self.place[:2], 4)),
        ]
        return m


class TwoClocks(wiring.Component):
    """A clock domain that no engine drives."""

    y: Out(1)

    def elaborate(self, platform: Any) -> Module:
        """Return the design."""
        m = Module()
        m.d.fast += self.y.eq(~self.y)
        return m


class Resettable(wiring.Component):
    """A counter that starts at 3."""

    y: Out(8, init=3)

    def elaborate(self, platform: Any) -> Module:
        """Return the design."""
        m = Module()
        m.d.sync += self.y.eq(self.y + 1)
        return m


class RandomDesign(wiring.Component):
    """Registers, operators and memories at random; the same for the same seed."""

    def __init__(self, seed: int, size: int = 40):
        self.seed, self.size = seed, size
        rng = random.Random(seed)
        self.inputs = [(f"i{n}", self._shape(rng)) for n in range(4)]
        self.outputs = [(f"o{n}", self._shape(rng)) for n in range(6)]
        super().__init__(
            {name: In(shape) for name, shape in self.inputs}
            | {name: Out(shape) for name, shape in self.outputs}
        )
        self.banks = [
            Memory(
                shape=unsigned(rng.choice([3, 8, 32, 40, 70])),
                depth=rng.choice([5, 8, 17]),
                init=[rng.getrandbits(3) for _ in range(5)],
            )
            for _ in range(2)
        ]

    @staticmethod
    def _shape(rng: random.Random) -> Any:
        width = rng.choice([1, 2, 7, 8, 16, 31, 32, 33, 64, 65, 90])
        return signed(width) if rng.random() < 0.4 else unsigned(width)

    def elaborate(self, platform: Any) -> Module:
        """Return the design."""
        rng = random.Random(self.seed + 1)
        m = Module()
        values = [getattr(self, name) for name, _ in self.inputs]
        registers = [Signal(self._shape(rng), name=f"r{n}") for n in range(4)]
        registers += [Signal(shape, init=-1 if shape.signed else 1) for shape in map(self._shape, [rng] * 4)]
        values += registers

        def pick(limit: int | None = None) -> Any:
            value = rng.choice(values)
            return value if limit is None or len(value) <= limit else value[:limit]

        for number, bank in enumerate(self.banks):
            m.submodules[f"bank{number}"] = bank
            write = bank.write_port()
            m.d.comb += [write.addr.eq(pick()), write.data.eq(pick()), write.en.eq(pick()[0])]
            second = bank.write_port()
            m.d.comb += [second.addr.eq(pick()), second.data.eq(pick()), second.en.eq(pick()[0])]
            # Beyond the depth, the value that a transparent port shows for a write is undefined.
            transparent = bank.depth == 8 and rng.random() < 0.7
            read = bank.read_port(transparent_for=(write,) if transparent else ())
            m.d.comb += [read.addr.eq(pick()), read.en.eq(pick()[0])]
            values.append(read.data)
            if rng.random() < 0.5:
                query = bank.read_port(domain="comb")
                m.d.comb += query.addr.eq(pick())
                values.append(query.data)
        operators = [
            lambda: pick() + pick(),
            lambda: pick() - pick(),
            lambda: pick(40) * pick(40),
            lambda: pick() & pick(),
            lambda: pick() | ~pick(),
            lambda: pick() ^ pick(),
            lambda: pick() < pick(),
            lambda: pick() == pick(),
            lambda: Mux(pick().any(), pick(), pick()),
            lambda: Cat(pick(), pick())[:90],
            lambda: pick(64) << pick(4).as_unsigned(),
            lambda: pick() >> pick(4).as_unsigned(),
            lambda: pick(20) // pick(6),
            lambda: pick(20) % pick(6),
            lambda: pick().bit_select(pick(5).as_unsigned(), 3),
            lambda: Array([pick(), pick(), pick()])[pick(2).as_unsigned()],
            lambda: -pick(),
            lambda: pick().as_signed() >> 2,
            lambda: pick().xor(),
        ]
        for number in range(self.size):
            value = rng.choice(operators)()
            node = Signal(self._shape(rng), name=f"n{number}")
            m.d.comb += node.eq(value)
            values.append(node)
        for register in registers:
            with m.If(pick().xor()):
                m.d.sync += register.eq(register + pick())
            with m.Elif(~pick()[0]):
                m.d.sync += register.eq(pick())
        for number, (name, _) in enumerate(self.outputs):
            domain = m.d.sync if number % 2 else m.d.comb
            domain += getattr(self, name).eq(pick() ^ pick() ^ pick())
        return m
