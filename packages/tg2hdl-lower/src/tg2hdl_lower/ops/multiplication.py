"""Pipelined integer multiplication from products that fit one hardware multiplier each."""

from __future__ import annotations

from amaranth import Module, Signal, signed, unsigned
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["LIMB", "Multiplier"]

LIMB = 16
"""Bits of the pieces that operands are cut into: their products fit an 18x18 multiplier."""


class Multiplier(wiring.Component):
    """Low half of a product: ``a * b`` modulo 2^width.

    Parameters
    ----------
    width : int
        Bits of operands and result.
    is_signed : bool
        Only the shape of the ports depends on it.

    Members
    -------
    a, b : In(width)
        Operands.
    result : Out(width)
        Valid `latency` enabled cycles after the operands.
    en : In(1)
        Stalls all registers when low.
    """

    def __init__(self, width: int, is_signed: bool) -> None:
        if not isinstance(width, int) or width < 1:
            raise ValueError(f"width={width!r} is not a positive number of bits")
        self.width = width
        self.latency = self.latency_of(width)
        shape = signed(width) if is_signed else unsigned(width)
        super().__init__({"a": In(shape), "b": In(shape), "result": Out(shape), "en": In(1)})

    @staticmethod
    def latency_of(width: int) -> int:
        """Cycles from operands to result: the products, then a tree of additions."""
        limbs = -(-width // LIMB)
        products = limbs * (limbs + 1) // 2
        return 1 + (products - 1).bit_length()

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        pieces = range(0, self.width, LIMB)
        level: list[Value] = []
        for low in pieces:
            for high in pieces:
                if low + high < self.width:
                    product = self.a[low : low + LIMB] * self.b[high : high + LIMB]
                    register = self._register(m, f"p{low}_{high}", product)
                    level.append(register.shift_left(low + high))
        depth = 0
        while len(level) > 1:
            pairs = [level[n : n + 2] for n in range(0, len(level), 2)]
            level = [
                self._register(m, f"s{depth}_{n}", sum(pair[1:], pair[0])) for n, pair in enumerate(pairs)
            ]
            depth += 1
        m.d.comb += self.result.eq(level[0])
        return m

    def _register(self, m: Module, name: str, value: Value) -> Signal:
        register = Signal(min(len(value), self.width), name=name, reset_less=True)
        with m.If(self.en):
            m.d.sync += register.eq(value)
        return register
