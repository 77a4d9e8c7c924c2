"""LUTs of the operands of multipliers that many kernels share."""

import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_lower.sharing.arbiter import MuxedOperands
from tg2hdl_lower.sharing.multipliers import Multiplier18
from tg2hdl_synth import synthesize

WIDTH = 8


class Shared(wiring.Component):
    """One multiplier and its users."""

    def __init__(self, users: int) -> None:
        self.users = users
        sides = {f"{side}{n}": In(WIDTH) for n in range(users) for side in "ab"}
        super().__init__({"busy": In(users), "result": Out(2 * WIDTH), **sides})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.multipliers = multipliers = Module()
        multipliers.submodules.product = product = Multiplier18((WIDTH, WIDTH), 2)
        arbiter = MuxedOperands(m, list(self.busy), multipliers)
        for side in "ab":
            operands = {n: getattr(self, f"{side}{n}").as_signed() for n in range(self.users)}
            m.d.comb += getattr(product, side).eq(arbiter.of(operands, side))
        m.d.comb += self.result.eq(product.result)
        return m


@pytest.mark.parametrize(("users", "luts"), [(2, 1), (8, 5), (9, 6), (12, 9), (17, 11)])
def test_each_bit_of_an_operand_takes_few_luts(users: int, luts: int) -> None:
    result = synthesize(Shared(users), "ecp5-45k", place=False)
    assert result.cells["dsp"] == 1
    assert result.cells["comb"] <= 2 * WIDTH * luts
