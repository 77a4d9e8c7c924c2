"""Logarithm to base 2."""

__all__ = ["Log2"]

from fractions import Fraction
from functools import cache
from typing import Any

from amaranth.hdl import Cat, Const, Mux

from . import functions
from .elementary import evaluate
from .format import BF16, FP16, FP32, Format
from .leading_product import low_bits, multiply_leading
from .logarithm import Logarithm
from .normalizing import normalize_operand, normalize_unpacked
from .pipeline import Pipeline
from .rounding_known import choose_special, round_chosen
from .tables import QuadraticTable, fit
from .timing import add_delay, lut_delay
from .unpacked import unpack


@cache
def table(format: Format) -> QuadraticTable:
    """Return the coefficients for a format."""
    p = format.significand
    index = 8 if p > 11 else 4
    return fit(
        functions.log2_slope,
        [
            (Fraction(0), Fraction(1, 2 << index), 1 << index),
            (-Fraction(1, 1 << p), -Fraction(1, 4 << index), 1 << index),
        ],
        delta=p - 2 - index,
        fraction=p + 4,
        slope_bits=p - 6 if p > 11 else p,
    )


class Log2(Logarithm):
    """``log2(a)``: exact for powers of two, error below 1 ULP; monotone in FP32, FP16 and BF16.

    The operand is ``2**e * (1 + w)`` with `w` in (-1/4, 1/2], so that there is no cancellation between `e` and the
    logarithm of the rest, which is `w` times a smooth function from a table of quadratics. When `e` is 0,
    `w` is normalized before the product.

    Special values: NaN and operands below zero give NaN, +-0 gives -inf, +inf gives +inf, 1 gives +0.
    """

    operation = "log2"

    def datapath(self, p: Pipeline) -> None:
        """Normalize, look up, evaluate, multiply, add the exponent, normalize, round."""
        f = self.format
        if f not in (FP32, FP16, BF16) or self.result_format != f:
            super().datapath(p)
            return
        n = f.significand
        coefficients = table(f)
        whole = (f.bias + n).bit_length()
        self._operand(p)

        # w in units of 2**-n: the fraction doubled, or 2**n less the significand.
        low = p.significand[: n - 2]
        p.inverted = low ^ p.high.replicate(n - 2)
        after_address = p.mark() + 1
        evaluate(
            p,
            coefficients,
            Cat(p.inverted[coefficients.delta :], p.high),
            p.inverted[: coefficients.delta],
            target=self.target,
        )
        with p.beside(after_address):
            p.above = p.power + p.high
            p.w = Mux(p.high, p.inverted + 1, Cat(Const(0, 1), p.inverted))[: n - 1]
            p.delay(add_delay(n - 2) + lut_delay(0.5))
            p.cut()
            p.far = p.above.any()
            p.below_one = Mux(p.far, p.above[-1], p.high)
            p.whole = Mux(p.above[-1], -p.above, p.above)[:whole]
            p.delay(add_delay(f.exponent) + lut_delay())
            p.cut()
            p.is_one = ~p.far & ~p.w.any()
            p.coarse = _leading_zeros(p.whole)
            # The product counts away from zero when w and the whole part have the same sign.
            p.opposite = p.far & (p.high ^ p.below_one)
            p.normal_w = p.w
            p.delay(lut_delay(2))
            normalize_operand(p, "normal_w", n - 1, hold="far")
        p.cut()
        # The top bit of the sum counts 2**(whole - 1), that of a lone product 2**-1.
        p.leading = Mux(p.far, (f.bias + whole - 1) - p.coarse, (f.bias - 1) - p.normal_w_places).as_signed()
        p.shift = Mux(p.far, p.coarse, 0)
        p.near = ~p.far
        self._add(p, coefficients, whole)
        self._round(p)

    def _operand(self, p: Pipeline) -> None:
        f = self.format
        x = unpack(f, p.a, subnormals=self.subnormals)
        p.is_nan = x.is_nan | x.sign & ~x.is_zero
        p.is_zero, p.is_inf = x.is_zero, x.is_inf
        normalize_unpacked(p, x, f, subnormals=self.subnormals)
        p.power = (p.field - p.significand_places).as_signed()
        # Exactly 3/2 belongs to the upper half, where w is -1/4.
        p.high = p.significand[-2]
        p.delay(add_delay(f.exponent))

    def _add(self, p: Pipeline, coefficients: QuadraticTable, whole: int) -> None:
        """Multiply, and add the whole part or subtract from it, as the complement of a sum."""
        n = self.format.significand
        fraction = n + coefficients.fraction - low_bits(n - 1) - low_bits(coefficients.value_bits)
        base = Cat(Const(0, fraction), Mux(p.far, p.whole, 0)) ^ p.opposite.replicate(fraction + whole)
        multiply_leading(p, "sum", p.normal_w, p.y, target=self.target, addend=base, lift=("near", whole))
        p.cut()

    def _round(self, p: Pipeline) -> None:
        f = self.format
        width = len(p.sum)
        guard = width - f.significand - 1
        p.scaled = p.sum ^ p.opposite.replicate(width)
        for k in reversed(range(len(p.shift))):
            p.scaled = Mux(p.shift[k], Cat(Const(0, 1 << k), p.scaled)[:width], p.scaled)
        p.leading_less, p.leading_least = p.leading - 1, p.leading - 2
        choose_special(
            p,
            f,
            sign=Mux(p.is_zero, 1, p.below_one & ~p.is_inf),
            nan=p.is_nan,
            inf=p.is_zero | p.is_inf,
            zero=p.is_one,
            over=Const(0),
        )
        p.delay(lut_delay(min(len(p.shift), 4)))
        p.cut()
        # One more place when the whole part is a power of two from which is subtracted, two when that is 1.
        one, two = p.wire(~p.scaled[-1]), p.wire(~p.scaled[-2:].any())
        value = Mux(two, Cat(Const(0, 2), p.scaled), Mux(one, Cat(Const(0, 1), p.scaled), p.scaled))[:width]
        p.value = value[guard:]
        # The bits far below the guard bit do not depend on these places.
        below = [p.scaled[guard - 2], p.scaled[guard - 1]]
        p.sticky = p.scaled[: guard - 2].any() | below[0] & ~two | below[1] & ~one
        p.field = Mux(two, p.leading_least, Mux(one, p.leading_less, p.leading))[: f.exponent]
        p.delay(lut_delay(2.5))
        p.cut()
        round_chosen(
            p,
            f,
            field=p.field,
            significand=p.value[1:],
            guard=p.value[0],
            sticky=p.sticky,
        )


def _leading_zeros(value: Any) -> Any:
    """Zeros above the highest set bit of a short value, as a priority chain."""
    width = len(value)
    count: Any = Const(width - 1, (width - 1).bit_length())
    for k in range(width):
        count = Mux(value[k], width - 1 - k, count)
    return count[: (width - 1).bit_length()]
