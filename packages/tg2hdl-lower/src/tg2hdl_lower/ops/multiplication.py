"""Pipelined integer multiplication from products that fit one hardware multiplier each."""

from __future__ import annotations

from amaranth import Module, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Multiplier", "pieces_of"]

_LIMB = 17
"""Most bits of an unsigned piece of an operand for which a multiplier of signed 18 x 18 bits suffices."""


def pieces_of(width: int) -> int:
    """Pieces that a signed operand of `width` bits is cut into; the topmost one has the sign."""
    return max(1, -(-(width - 1) // _LIMB))


class Multiplier(wiring.Component):
    """The low bits of the product of two signed integers, a hardware multiplier for each pair of their pieces.

    Parameters
    ----------
    widths : (int, int)
        Bits of the operands.
    pieces : (int, int)
        Pieces of the operands, at least `pieces_of` their widths.
    bits : int
        Bits of the result.

    Members
    -------
    a, b : In(signed)
        Operands.
    result : Out(signed)
        Valid `latency` enabled cycles after the operands.
    en : In(1)
        Stalls all registers when low.

    Raises
    ------
    ValueError
        For a width or a number of pieces that is not positive.
    """

    def __init__(self, widths: tuple[int, int], pieces: tuple[int, int], bits: int) -> None:
        for number in (*widths, *pieces, bits):
            if not isinstance(number, int) or number < 1:
                raise ValueError(f"{number!r} is not a positive number of bits or pieces")
        self.widths, self.pieces, self.bits = widths, pieces, bits
        self.latency = self.latency_of(*pieces)
        a, b = widths
        super().__init__({"a": In(signed(a)), "b": In(signed(b)), "result": Out(signed(bits)), "en": In(1)})

    @staticmethod
    def latency_of(a: int, b: int) -> int:
        """Cycles from operands in `a` and `b` pieces to the result: the products, then a tree of additions.

        Parameters
        ----------
        a, b : int
            Pieces of each operand.
        """
        return 1 + (a * b - 1).bit_length()

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        level: list[Value] = []
        for low, a in self._cut(self.a, self.pieces[0]):
            for high, b in self._cut(self.b, self.pieces[1]):
                if low + high < self.bits:
                    register = self._register(m, f"p{low}_{high}", a * b)
                    level.append(register.shift_left(low + high))
        for depth in range(self.latency - 1):
            pairs = [level[n : n + 2] for n in range(0, len(level), 2)]
            level = [
                self._register(m, f"s{depth}_{n}", sum(pair[1:], pair[0])) for n, pair in enumerate(pairs)
            ]
        m.d.comb += self.result.eq(level[0])
        return m

    def _cut(self, operand: Value, pieces: int) -> list[tuple[int, Value]]:
        """Place and value of the pieces, all about as wide."""
        size = max(1, -(-(len(operand) - 1) // pieces))
        places = range(0, min(size * pieces, len(operand)), size)
        ends = [*places[1:], len(operand)]
        found = [(low, operand[low:high]) for low, high in zip(places, ends, strict=True)]
        top, value = found[-1]
        return [*found[:-1], (top, value.as_signed())]

    def _register(self, m: Module, name: str, value: Value) -> Signal:
        shape = value.shape()
        register = Signal(
            signed(min(shape.width, self.bits)) if shape.signed else min(shape.width, self.bits),
            name=name,
            reset_less=True,
        )
        with m.If(self.en):
            m.d.sync += register.eq(value)
        return register
