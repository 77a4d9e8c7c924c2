"""An arithmetic unit: a float adder of five cycles, chosen by name with ``--unit add=myext.add5``."""

from __future__ import annotations

from typing import Any

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_fp32 import FP32, Add
from tg2hdl_ir import Area, ArithmeticUnit, DType, hookimpl


class Add5(wiring.Component):
    """Ports that every unit has: operands, `en`, which stalls all registers, and `result`."""

    latency = 5

    def __init__(self) -> None:
        super().__init__({"a": In(32), "b": In(32), "en": In(1, init=1), "result": Out(32)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.core = core = Add(FP32, profile="small")
        m.d.comb += [core.a.eq(self.a), core.b.eq(self.b), core.en.eq(self.en)]
        value: Any = core.result
        for _ in range(self.latency - core.latency):
            following = type(self.result)(32)
            with m.If(self.en):
                m.d.sync += following.eq(value)
            value = following
        m.d.comb += self.result.eq(value)
        return m


@hookimpl
def tg2hdl_arithmetic_units() -> list[ArithmeticUnit]:
    """Priority below the built-in 0 to 10: used only where it is named, or where a policy takes it."""
    return [
        ArithmeticUnit(
            name="myext.add5",
            op="add",
            operands=(DType.FP32, DType.FP32),
            result=DType.FP32,
            latency=Add5.latency,
            factory=Add5,
            area=Area(lut=700, ff=350),
            fmax=90.0,
            priority=-10,
            accuracy="correctly rounded",
        )
    ]
