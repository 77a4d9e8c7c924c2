"""Pipelined integer division: one quotient bit a stage, a new division every cycle."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Divider"]


class Divider(wiring.Component):
    """Quotient or remainder of two integers, truncated toward zero.

    Division by zero gives quotient 0 and remainder `a`; the smallest number divided by -1 gives itself and 0.

    Parameters
    ----------
    width : int
        Bits of both operands and of the result.
    is_signed : bool
        Operands are two's complement numbers.
    remainder : bool
        The result is the remainder, with the sign of `a`; otherwise the quotient.

    Members
    -------
    a, b : In(width)
        Dividend and divisor.
    result : Out(width)
        Valid `latency` enabled cycles after the operands.
    en : In(1)
        Stalls all registers when low.
    """

    def __init__(self, width: int, is_signed: bool, remainder: bool) -> None:
        if not isinstance(width, int) or width < 1:
            raise ValueError(f"width={width!r} is not a positive number of bits")
        self.width = width
        self.is_signed = is_signed
        self.remainder = remainder
        self.latency = self.latency_of(width)
        shape = signed(width) if is_signed else unsigned(width)
        super().__init__({"a": In(shape), "b": In(shape), "result": Out(shape), "en": In(1)})

    @staticmethod
    def latency_of(width: int) -> int:
        """Cycles from operands to result: magnitudes, one stage a bit, sign."""
        return width + 2

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        width = self.width
        a_negative = self.a[-1] if self.is_signed else Value.cast(0)
        b_negative = self.b[-1] if self.is_signed else Value.cast(0)
        dividend = self._register(m, width, "dividend", Mux(a_negative, -self.a, self.a))
        divisor = self._register(m, width, "divisor", Mux(b_negative, -self.b, self.b))
        flips = a_negative if self.remainder else a_negative ^ b_negative
        negative = self._register(m, 1, "negative", flips)
        # A zero divisor would subtract at every bit and lose the remainder: not subtracting keeps the dividend.
        zero = self._register(m, 1, "zero", self.b == 0)
        rest: Value = Value.cast(0)
        for stage in range(width):
            shifted = Signal(width + 1, name=f"shifted{stage}")
            difference = Signal(width + 2, name=f"difference{stage}")
            m.d.comb += shifted.eq(Cat(dividend[-1], rest))
            m.d.comb += difference.eq(shifted - divisor)
            fits = ~difference[-1] & ~zero
            rest = self._register(m, width, f"rest{stage}", Mux(fits, difference, shifted))
            # Quotient bits enter the dividend from below as its own bits leave.
            dividend = self._register(m, width, f"bits{stage}", Cat(fits, dividend[:-1]))
            divisor = self._register(m, width, f"divisor{stage}", divisor)
            negative = self._register(m, 1, f"negative{stage}", negative)
            zero = self._register(m, 1, f"zero{stage}", zero)
        magnitude = rest if self.remainder else dividend
        m.d.comb += self.result.eq(self._register(m, width, "outcome", Mux(negative, -magnitude, magnitude)))
        return m

    def _register(self, m: Module, width: int, name: str, value: Value) -> Signal:
        register = Signal(width, name=name, reset_less=True)
        with m.If(self.en):
            m.d.sync += register.eq(value)
        return register
