"""Products beyond the hard multipliers of a part are made of LUTs."""

from dataclasses import replace

import pytest
from amaranth import Module, Signal, signed
from amaranth.back import rtlil
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_synth import synthesize
from tg2hdl_synth.soft_multipliers import products, soft_products
from tg2hdl_synth.targets import target_named


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
    assert [(p.module, p.widths, p.blocks) for p in products(text)] == [
        ("top", (8, 8), 1),
        ("top", (12, 12), 1),
        ("top", (16, 16), 1),
        ("top", (30, 30), 4),
    ]


@pytest.mark.parametrize(("blocks", "soft"), [(7, []), (6, [8]), (5, [8, 12]), (3, [8, 12, 16, 30])])
def test_the_smallest_ones_go(text: str, blocks: int, soft: list[int]) -> None:
    assert [p.widths[0] for p in soft_products(text, blocks)] == soft


def test_a_part_with_few_multipliers_gets_luts() -> None:
    part = replace(target_named("ecp5-45k"), dsp=5)
    hard = synthesize(Products(), "ecp5-45k", place=False)
    soft = synthesize(Products(), part, place=False)
    assert (hard.cells["dsp"], soft.cells["dsp"]) == (7, 5)
    assert hard.notes == ()
    assert soft.notes == ("2 products are made of LUTs: the part has 5 multipliers",)
    assert soft.cells["comb"] > hard.cells["comb"] + 100
