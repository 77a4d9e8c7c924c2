"""One lane of the vector unit."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_tpu.isa import FIRST_VECTOR
from tg2hdl_tpu.vector_ops import VECTOR_OPS

__all__ = ["Alu"]

_LATE = ("mul", "mac", "requant")


def _merge(pairs: list[tuple[Any, Any]]) -> Value:
    """AND-OR multiplexer of 32-bit values; at most one condition holds."""
    return reduce(or_, [Value.cast(v)[:32] & condition.replicate(32) for condition, v in pairs])


class Alu(wiring.Component):
    """Vector operations on one lane, with the ReLU after them.

    Parameters
    ----------
    registers : int
        0 is combinational, 1 registers the result, 2 the products too.

    Members
    -------
    a, b, c : In(32)
        Operands and old destination.
    opcode, k, relu : In
        Of the instruction.
    result : Out(signed(32))
    """

    def __init__(self, registers: int = 0) -> None:
        self.registers = registers
        super().__init__(
            {
                "a": In(signed(32)),
                "b": In(signed(32)),
                "c": In(signed(32)),
                "opcode": In(7),
                "k": In(6),
                "relu": In(1),
                "result": Out(signed(32)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Build the operations."""
        m = Module()
        self.ua, self.ub = self.a.as_unsigned(), self.b.as_unsigned()
        chosen = {op.name: Signal(name=f"is_{op.name}") for op in VECTOR_OPS if not op.is_long}
        early: list[tuple[Any, Any]] = []
        for code, op in enumerate(VECTOR_OPS, FIRST_VECTOR):
            if op.is_long:
                continue
            m.d.comb += chosen[op.name].eq(self.opcode == code)
            if op.name not in _LATE:
                early.append((chosen[op.name], getattr(self, op.hardware or op.name)()))
        # Factors of at most 18 bits, as multipliers have them: a by the low half of b, and the rest of the product.
        low_factor = Signal(signed(17))
        m.d.comb += low_factor.eq(self.ub[:16])
        middle: dict[str, Any] = {
            "early": _merge(early),
            "low": (self.a * low_factor)[:49].as_signed(),
            "high": (self.ua[:16] * self.ub[16:])[:16],
            "c": self.c,
            "k": self.k,
            "relu": self.relu,
            **{name: chosen[name] for name in _LATE},
        }
        if self.registers == 2:
            for name, value in middle.items():
                register = Signal(Value.cast(value).shape(), name=name, reset_less=True)
                m.d.sync += register.eq(value)
                middle[name] = register
        product = Signal(32)
        m.d.comb += product.eq(middle["low"][:32] + (middle["high"] << 16))
        result = Signal(signed(32))
        merged = _merge(
            [
                (middle["mul"], product),
                (middle["mac"], product + middle["c"].as_unsigned()),
                (middle["requant"], self._requantize(m, middle["low"], middle["k"])),
            ]
        )
        m.d.comb += result.eq(middle["early"] | merged)
        final = Mux(middle["relu"] & result[31], 0, result)
        if self.registers:
            m.d.sync += self.result.eq(final)
        else:
            m.d.comb += self.result.eq(final)
        return m

    def _requantize(self, m: Module, low: Any, k: Any) -> Value:
        rounded = Signal(signed(66))
        shifted = Signal(signed(66))
        m.d.comb += rounded.eq(low + ((1 << k) >> 1))
        m.d.comb += shifted.eq(rounded >> k)
        return Mux(shifted > 127, 127, Mux(shifted < -128, -128, shifted))

    # Each operation by its name, or by `VectorOp.hardware`.

    def copy(self) -> Value:
        return self.a

    def add(self) -> Value:
        return self.ua + self.ub

    def sub(self) -> Value:
        return self.ua - self.ub

    def rsub(self) -> Value:
        return self.ub - self.ua

    def max(self) -> Value:
        return Mux(self.a > self.b, self.a, self.b)

    def min(self) -> Value:
        return Mux(self.a < self.b, self.a, self.b)

    def maxu(self) -> Value:
        return Mux(self.ua > self.ub, self.ua, self.ub)

    def minu(self) -> Value:
        return Mux(self.ua < self.ub, self.ua, self.ub)

    def and_(self) -> Value:
        return self.a & self.b

    def or_(self) -> Value:
        return self.a | self.b

    def xor(self) -> Value:
        return self.a ^ self.b

    def shl(self) -> Value:
        return (self.ua << self.ub[:5])[:32]

    def shr(self) -> Value:
        return self.ua >> self.ub[:5]

    def sra(self) -> Value:
        return self.a >> self.ub[:5]

    def lt(self) -> Value:
        return Cat(self.a < self.b, _zeros(31))

    def ltu(self) -> Value:
        return Cat(self.ua < self.ub, _zeros(31))

    def eq(self) -> Value:
        return Cat(self.a == self.b, _zeros(31))

    def ne(self) -> Value:
        return Cat(self.a != self.b, _zeros(31))

    def select(self) -> Value:
        return Mux(self.c != 0, self.a, self.b)

    def abs_(self) -> Value:
        return Mux(self.a[31], -self.a, self.a)[:32]

    def clz(self) -> Value:
        count: Value = Value.cast(32)
        for bit in range(32):
            count = Mux(self.a[bit], 31 - bit, count)
        return Cat(Value.cast(count)[:6], _zeros(26))

    def popcount(self) -> Value:
        values: list[Value] = [self.a[i] for i in range(32)]
        while len(values) > 1:
            values = [values[i] + values[i + 1] for i in range(0, len(values), 2)]
        return Cat(values[0][:6], _zeros(26))

    def _bytes(self, combine: Any) -> Value:
        parts = []
        for n in range(4):
            x, y = (v[8 * n : 8 * n + 8].as_signed() for v in (self.a, self.b))
            parts.append(Value.cast(combine(x, y))[:8])
        return Cat(parts)

    def add8(self) -> Value:
        return self._bytes(lambda x, y: _saturated(x + y))

    def sub8(self) -> Value:
        return self._bytes(lambda x, y: _saturated(x - y))

    def max8(self) -> Value:
        return self._bytes(lambda x, y: Mux(x > y, x, y))

    def min8(self) -> Value:
        return self._bytes(lambda x, y: Mux(x < y, x, y))


def _zeros(width: int) -> Value:
    return Const(0, width)


def _saturated(value: Value) -> Value:
    return Mux(value > 127, 127, Mux(value < -128, -128, value))
