"""Products beyond the hard multipliers of a part are made of LUTs."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from amaranth import Module, Shape, Signal, Value, signed, unsigned
from amaranth.back import rtlil
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_synth import part_named, synthesize
from tg2hdl_synth.families.ecp5.soft_pipelines import SOFT_PRODUCT, with_soft_products
from tg2hdl_synth.netlist_simulation import open_netlist
from tg2hdl_synth.rtlil import read_rtlil
from tg2hdl_synth.soft_multipliers import products, soft_products


class Products(wiring.Component):
    """Registered products of 8, 12, 16 and 30 bits."""

    WIDTHS = (8, 12, 16, 30)

    def __init__(self) -> None:
        super().__init__(
            {f"{p}{w}": In(signed(w)) for w in self.WIDTHS for p in "ab"}
            | {f"p{w}": Out(signed(2 * w)) for w in self.WIDTHS}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.inner = Module()
        for width in self.WIDTHS:
            a, b = Signal(signed(width)), Signal(signed(width))
            m.d.sync += [a.eq(getattr(self, f"a{width}")), b.eq(getattr(self, f"b{width}"))]
            m.d.sync += getattr(self, f"p{width}").eq(a * b)
        return m


@pytest.fixture(scope="module")
def text() -> str:
    return rtlil.convert(Products(), name="top")


def test_products_are_found_with_their_blocks(text: str) -> None:
    assert [(p.module, p.widths, p.blocks) for p in products(read_rtlil(text))] == [
        ("top", (8, 8), 1),
        ("top", (12, 12), 1),
        ("top", (16, 16), 1),
        ("top", (30, 30), 4),
    ]


@pytest.mark.parametrize(("blocks", "soft"), [(7, []), (6, [8]), (5, [8, 12]), (3, [8, 12, 16, 30])])
def test_the_smallest_ones_go(text: str, blocks: int, soft: list[int]) -> None:
    assert [p.widths[0] for p in soft_products(read_rtlil(text), blocks)] == soft


def test_a_part_with_few_multipliers_gets_luts() -> None:
    part = replace(part_named("ecp5-45k"), dsp=5)
    hard = synthesize(Products(), "ecp5-45k", place=False)
    soft = synthesize(Products(), part, place=False)
    assert (hard.cells["dsp"], soft.cells["dsp"]) == (7, 5)
    assert hard.notes == ()
    assert soft.notes == ("2 products are made of LUTs: the part has 5 multipliers",)
    assert soft.cells["comb"] > hard.cells["comb"] + 100


class Pairs(wiring.Component):
    """Registered products of factors of these shapes."""

    SHAPES = (
        *((signed(a), signed(b)) for a, b in ((8, 8), (4, 9), (12, 7))),
        *((unsigned(a), unsigned(b)) for a, b in ((8, 8), (5, 3))),
    )

    def __init__(self) -> None:
        members = {}
        for n, (a, b) in enumerate(self.SHAPES):
            product = signed(a.width + b.width) if a.signed else unsigned(a.width + b.width)
            members |= {f"a{n}": In(a), f"b{n}": In(b), f"p{n}": Out(product)}
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for n in range(len(self.SHAPES)):
            m.d.sync += getattr(self, f"p{n}").eq(getattr(self, f"a{n}") * getattr(self, f"b{n}"))
        return m


def test_products_of_luts_are_right() -> None:
    rng = random.Random(2)
    result = synthesize(Pairs(), replace(part_named("ecp5-45k"), dsp=0), place=False)
    assert result.cells["dsp"] == 0
    # A product of two bytes takes less than 100 LUTs.
    assert result.cells["comb"] < 1.25 * sum(a.width * b.width for a, b in Pairs.SHAPES)
    with open_netlist(result) as netlist:
        for turn in range(200):
            expected = {}
            for n, (a, b) in enumerate(Pairs.SHAPES):
                factors = []
                for port, shape in ((f"a{n}", a), (f"b{n}", b)):
                    low = -(1 << shape.width - 1) if shape.signed else 0
                    high = low + (1 << shape.width) - 1
                    value = rng.choice((low, high, 0, 1)) if turn < 60 else rng.randint(low, high)
                    netlist.set(port, value & ((1 << shape.width) - 1))
                    factors.append(value)
                expected[f"p{n}"] = factors[0] * factors[1]
            netlist.step()
            for n, (a, b) in enumerate(Pairs.SHAPES):
                mask = (1 << a.width + b.width) - 1
                assert netlist.get(f"p{n}") & mask == expected[f"p{n}"] & mask, (a, b)


class Pipelines(wiring.Component):
    """Products with input and output registers, by their numbers."""

    def __init__(self, shapes: tuple[Shape, Shape], registers: Sequence[tuple[int, int]]) -> None:
        self.registers = registers
        a, b = shapes
        product = Shape(a.width + b.width, a.signed)
        super().__init__({"a": In(a), "b": In(b)} | {f"p{n}_{after}": Out(product) for n, after in registers})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for before, after in self.registers:
            m.submodules[f"lane{before}_{after}"] = inner = Module()
            a: Value = self.a
            b: Value = self.b
            for n in range(before):
                next_a, next_b = (
                    Signal.like(v, name=f"{p}{n}", reset_less=True) for p, v in (("a", self.a), ("b", self.b))
                )
                inner.d.sync += [next_a.eq(a), next_b.eq(b)]
                a, b = next_a, next_b
            output = getattr(self, f"p{before}_{after}")
            product: Value = a * b
            for n in range(after):
                register = Signal.like(output, name=f"p{n}", reset_less=True)
                inner.d.sync += register.eq(product)
                product = register
            inner.d.comb += output.eq(product)
        return m


@pytest.mark.parametrize(
    "shapes",
    [
        (unsigned(5), unsigned(6)),
        (signed(9), signed(3)),
        *(
            pytest.param(shapes, marks=pytest.mark.slow)
            for shapes in (
                (signed(8), signed(8)),
                (unsigned(7), unsigned(2)),
                (signed(3), signed(17)),
            )
        ),
    ],
    ids=lambda s: f"{s[0]!r}x{s[1]!r}",
)
def test_registers_move_between_the_sums(shapes: tuple[Shape, Shape]) -> None:
    rng = random.Random(3)
    design = Pipelines(shapes, [(1, 2), (2, 1), (3, 2)])
    result = synthesize(design, replace(part_named("ecp5-45k"), dsp=0), place=False)
    a, b = shapes
    mask = (1 << a.width + b.width) - 1
    pairs = []
    with open_netlist(result) as netlist:
        for _ in range(100):
            factors = []
            for port, shape in zip("ab", shapes, strict=True):
                low = -(1 << shape.width - 1) if shape.signed else 0
                high = low + (1 << shape.width) - 1
                value = rng.choice((low, high, 0, 1, rng.randint(low, high)))
                netlist.set(port, value & ((1 << shape.width) - 1))
                factors.append(value)
            pairs.append(factors[0] * factors[1] & mask)
            netlist.step()
            for before, after in design.registers:
                if len(pairs) >= before + after:
                    expected = pairs[-before - after]
                    assert netlist.get(f"p{before}_{after}") & mask == expected, (before, after)


def chains_in_a_row(folder: Path) -> int:
    """Carry chains in sequence, without a register between them."""
    module = json.loads((folder / "netlist.json").read_text())["modules"]["top"]
    drivers: dict[int, tuple[str, str]] = {}
    for name, cell in module["cells"].items():
        for pin, bits in cell["connections"].items():
            if cell["port_directions"][pin] == "output":
                drivers |= {bit: (name, pin) for bit in bits}

    @cache
    def before(bit: int | str) -> int:
        name, output = drivers.get(bit, ("", ""))
        cell = module["cells"].get(name)
        if cell is None or cell["type"] not in ("CCU2C", "LUT4"):
            return 0
        inputs = [
            (pin, bits[0])
            for pin, bits in cell["connections"].items()
            if cell["port_directions"][pin] == "input" and not (output == "S0" and pin[-1] == "1")
        ]
        carried = [before(bit) for pin, bit in inputs if pin == "CIN"]
        others = max(before(bit) for pin, bit in inputs if pin != "CIN")
        return max([others + (cell["type"] == "CCU2C"), *carried])

    return max(
        before(bit) for c in module["cells"].values() for bits in c["connections"].values() for bit in bits
    )


def test_each_sum_has_its_cycle() -> None:
    part = replace(part_named("ecp5-45k"), dsp=0)
    chains = {
        registers: chains_in_a_row(
            synthesize(Pipelines((signed(8), signed(8)), [registers]), part, place=False).folder
        )
        for registers in ((1, 1), (2, 1), (3, 2))
    }
    assert chains == {(1, 1): 3, (2, 1): 2, (3, 2): 1}


class Started(wiring.Component):
    """A product after two consecutive registers; the later one starts at a value."""

    def __init__(self, init: int) -> None:
        self.init = init
        super().__init__({"a": In(signed(8)), "b": In(signed(8)), "p": Out(signed(16))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        factors: list[Value] = []
        for name, port in (("a", self.a), ("b", self.b)):
            first = Signal(signed(8), name=f"{name}0", reset_less=True)
            second = Signal(signed(8), name=f"{name}1", reset_less=True, init=self.init)
            m.d.sync += [first.eq(port), second.eq(first)]
            factors.append(second)
        m.d.comb += self.p.eq(factors[0] * factors[1])
        return m


@pytest.mark.parametrize(("init", "stages"), [(0, 1), (3, 0), (-1, 0)])
def test_registers_that_start_at_a_value_stay(init: int, stages: int) -> None:
    text = rtlil.convert(Started(init), name="top")
    changed = with_soft_products(text, soft_products(read_rtlil(text), 0))
    assert f"cell \\{SOFT_PRODUCT} " in changed
    assert f"parameter \\STAGES {stages}\n" in changed
