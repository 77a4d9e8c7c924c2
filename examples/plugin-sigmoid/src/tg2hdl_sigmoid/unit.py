"""The hardware unit: float to a table index by one shift, then a block RAM."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl_ir import DType
from tg2hdl_sigmoid.golden import INDEX_BITS, table

__all__ = ["SigmoidTable"]

_BIAS = 127
_FRACTION = 23
_LIMIT_EXPONENT = _BIAS + 3  # |x| >= 8
_ONE = 0x3F800000
_NAN = 0x7FC00000


class SigmoidTable(wiring.Component):
    """Logistic function on FP32 patterns; see `tg2hdl_sigmoid.golden.evaluate`.

    Attributes
    ----------
    latency : int
        4 cycles: shift, index, memory, result.

    Members
    -------
    a : In(32)
        Operand, an IEEE-754 pattern.
    en : In(1)
        Clock enable of all registers.
    result : Out(32)
        The result of the operand 4 enabled cycles before.
    """

    latency = 4

    def __init__(self) -> None:
        super().__init__({"a": In(32), "en": In(1, init=1), "result": Out(32)})

    def elaborate(self, platform: Any) -> Module:
        """Build the pipeline."""
        m = Module()
        patterns = [int(p) for p in DType.FP32.array_to_bits(table())]
        m.submodules.table = memory = Memory(shape=32, depth=1 << INDEX_BITS, init=patterns)
        port = memory.read_port()
        sign, exponent, fraction = self.a[31], self.a[23:31], self.a[:23]

        # 1: twice the index, so that the lowest bit is the half that rounding adds.
        doubled = Signal(INDEX_BITS + 1)
        significand = Signal(_FRACTION + 1)
        shift = Signal(9)
        m.d.comb += [
            significand.eq(fraction | (1 << _FRACTION)),
            shift.eq(_BIAS + _FRACTION - (1 + INDEX_BITS - 4) - exponent),
        ]
        first = _flags("first")
        with m.If(self.en):
            # Below 2^-9 everything, subnormals too, rounds to index 0.
            m.d.sync += [
                doubled.eq(Mux(exponent < _BIAS - 9, 0, significand >> shift[:5])),
                first["negative"].eq(sign),
                first["large"].eq(exponent >= _LIMIT_EXPONENT),
                first["nan"].eq((exponent == 0xFF) & (fraction != 0)),
            ]

        # 2: round half away from zero, saturate, apply the sign.
        magnitude = Signal(INDEX_BITS)
        index = Signal(INDEX_BITS)
        top = (1 << (INDEX_BITS - 1)) - 1
        m.d.comb += magnitude.eq((doubled + 1) >> 1)
        saturated = Mux(magnitude > top, top, magnitude)
        second = _step(m, self.en, first, "second")
        with m.If(self.en):
            m.d.sync += index.eq(Mux(first["negative"], -saturated, saturated))

        # 3: read.
        m.d.comb += [port.addr.eq(index), port.en.eq(self.en)]
        third = _step(m, self.en, second, "third")

        # 4: results that are not in the table.
        with m.If(self.en):
            m.d.sync += self.result.eq(port.data)
            with m.If(third["large"]):
                m.d.sync += self.result.eq(Mux(third["negative"], 0, _ONE))
            with m.If(third["nan"]):
                m.d.sync += self.result.eq(_NAN)
        return m


def _flags(stage: str) -> dict[str, Signal]:
    return {name: Signal(name=f"{stage}_{name}") for name in ("negative", "large", "nan")}


def _step(m: Module, en: Signal, flags: dict[str, Signal], stage: str) -> dict[str, Signal]:
    """Delay the flags by one enabled cycle."""
    delayed = _flags(stage)
    with m.If(en):
        m.d.sync += [delayed[name].eq(flag) for name, flag in flags.items()]
    return delayed
