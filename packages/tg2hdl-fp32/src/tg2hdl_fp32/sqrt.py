"""Square root, correctly rounded."""

__all__ = ["FP32Sqrt", "Sqrt"]

from collections.abc import Sequence
from math import isqrt
from typing import Any

from amaranth.hdl import Cat, Const, Mux, Value

from .core import Core
from .format import FP32
from .normalizing import normalize_operand
from .pipeline import Pipeline
from .rounding import round_and_pack
from .timing import add_delay, lut_delay, reduce_delay
from .unpacked import unpack


class Sqrt(Core):
    """``sqrt(a)``, correctly rounded in any format and rounding mode.

    Non-restoring digit recurrence in radix 2: every bit of the root is one addition, which is as wide as the
    part of the root that is already known; its sign is the bit.

    Special values: NaN and operands below zero give NaN, -0 gives -0, +inf gives +inf.
    """

    operation = "sqrt"
    operands = ("a",)

    def datapath(self, p: Pipeline) -> None:
        """Normalize, find one bit of the root after the other, round."""
        f = self.format
        x = unpack(f, p.a, subnormals=self.subnormals)
        p.sign = x.sign
        p.is_nan = x.is_nan | x.sign & ~x.is_zero
        p.invalid = x.is_signaling | x.sign & ~x.is_zero & ~x.is_nan
        p.is_zero = x.is_zero
        p.is_inf = x.is_inf
        p.field = (x.exponent - f.bias).as_signed()
        p.significand = x.significand
        p.significand_places = Const(0, 1)
        p.delay(add_delay(f.exponent) + lut_delay())
        if self.subnormals:
            p.cut()
            normalize_operand(p, "significand", f.significand)
            p.cut()
        p.power = (p.field - p.significand_places).as_signed()
        p.delay(add_delay(f.exponent))
        p.cut()

        # Pairs of radicand bits, first the two before the point; an odd exponent doubles the radicand.
        radicand = Mux(p.power[0], Cat(Const(0, 1), p.significand), p.significand)
        p.exponent = ((p.power >> 1) + f.bias).as_signed()
        count = f.significand + 1
        padded = Cat(Const(0, 2 * count - f.significand - 1), radicand)
        p.radicand = padded[: 2 * count - 2]
        self._begin(p, padded)
        p.delay(lut_delay(2.5))
        for step in range(len(p.root), count):
            p.cut()
            negative = p.remainder[-1]
            pair = p.radicand[2 * (count - step) - 2 : 2 * (count - step)]
            if step > (f.significand + 1) // 2:
                pair = Const(0, 2)
            # 4 r + pair - (4 q + 1), or 4 r + pair + (4 q + 3) when r is negative.
            addend = Cat(Const(3, 2), p.root ^ (~negative).replicate(step), ~negative)
            total = (Cat(pair, p.remainder).as_signed() + addend.as_signed())[: step + 3]
            p.remainder = total.as_signed()
            p.root = Cat(~total[-1], p.root)
            p.delay(lut_delay() + add_delay(step + 3))
        p.cut()

        # A root that ends before the guard bit leaves the remainder -(2 q + 1); no root ends at it.
        exact = (~p.remainder)[: count + 2] == Cat(Const(0, 1), p.root)
        p.sticky = ~exact
        p.delay(reduce_delay(2 * (count + 1)))
        round_and_pack(
            p,
            f,
            sign=p.sign,
            exponent=p.exponent,
            significand=p.root[1:],
            guard=p.root[0],
            sticky=p.sticky,
            nan=p.is_nan,
            inf=p.is_inf,
            zero=p.is_zero,
            invalid=p.invalid,
            flags=self.has_flags,
            subnormals=self.subnormals,
        )

    def _begin(self, p: Pipeline, padded: Value) -> None:
        """Find the first bits of the root: three, or one in formats of two or three bits."""
        known = 3 if self.format.significand > 3 else 1
        top = padded[-2 * known :]
        roots, remainders = zip(*((isqrt(k), k - isqrt(k) ** 2) for k in range(1 << 2 * known)), strict=True)
        root, remainder = (_select(top, values) for values in (roots, remainders))
        p.root = root[:known]
        p.remainder = Cat(remainder, Const(0, known + 2))[: known + 2].as_signed()


def _select(index: Value, values: Sequence[int]) -> Value:
    """Return the entry of a small table as a sum of products for the synthesizer to flatten."""
    return Cat(
        Cat(index == k for k, value in enumerate(values) if value >> bit & 1).any()
        for bit in range(max(values).bit_length())
    )


class FP32Sqrt(Sqrt):
    """:class:`Sqrt` of FP32; combinational unless a profile is given."""

    def __init__(self, **parameters: Any) -> None:
        if "stages" not in parameters:
            parameters.setdefault("profile", "comb")
        super().__init__(FP32, **parameters)
