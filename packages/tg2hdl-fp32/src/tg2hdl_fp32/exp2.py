"""2 to the power of x."""

__all__ = ["Exp2", "FP32Exp2"]

from fractions import Fraction
from functools import cache
from typing import Any

from amaranth.hdl import Cat, Const, Mux, signed

from . import functions
from .elementary import ElementaryCore, evaluate
from .format import FP32, Format
from .pipeline import Pipeline
from .rounding import round_and_pack
from .shifting import shift_right_sticky_step
from .tables import QuadraticTable, fit
from .timing import add_delay, lut_delay
from .unpacked import unpack


@cache
def table(format: Format) -> QuadraticTable:
    """Return the coefficients for a format."""
    index = 8 if format.significand > 11 else 4
    return fit(
        functions.exp2,
        [(Fraction(0), Fraction(1, 1 << index), 1 << index)],
        delta=format.significand + 2 - index,
        fraction=format.significand + 3,
        slope_bits=format.significand - 6 if format.significand > 11 else format.significand - 1,
        exact=(0,),
    )


class Exp2(ElementaryCore):
    """``2**a``: exact for integers, error below 1 ULP, monotone.

    The operand becomes a fixed-point number; its integer part is the exponent, its fraction goes through a
    table of quadratics. A negative operand is complemented rather than negated: one unit in the last place of
    the fixed-point number, a tenth of an ULP of the result.

    Special values: NaN gives NaN, +inf +inf, -inf 0.
    """

    operation = "exp2"

    def datapath(self, p: Pipeline) -> None:
        """Shift to fixed point, look up, evaluate, shift to subnormal, round."""
        f = self.format
        coefficients = table(f)
        places = f.significand + 2
        width = f.exponent + places
        x = unpack(f, p.a, subnormals=self.subnormals)
        p.negative = x.sign
        p.significand = x.significand
        p.is_nan = x.is_nan
        amount = Const(f.bias + f.exponent - 1, signed(f.exponent + 1)) - x.field
        p.amount = amount[: f.exponent + 1]
        p.delay(add_delay(f.exponent) + lut_delay())
        p.cut()

        levels = width.bit_length()
        p.huge = p.amount[-1]
        p.gone = p.amount[levels:-1].any()
        p.shifted = Cat(Const(0, width - f.significand), p.significand)
        for k in reversed(range(levels)):
            p.shifted = Mux(p.amount[k], p.shifted[1 << k :], p.shifted)[:width]
            p.delay(lut_delay())
            if k and (levels - k) % 2 == 0:
                p.cut()
        p.fixed = Mux(p.gone, 0, p.shifted) ^ p.negative.replicate(width)
        p.delay(lut_delay(0.5))

        behind_address = p.mark() + 1
        p.integer = Cat(p.fixed[places:], p.negative).as_signed()
        evaluate(
            p,
            coefficients,
            p.fixed[places - coefficients.index : places],
            p.fixed[: coefficients.delta],
            target=self.target,
        )
        steps = (f.significand + 1).bit_length()
        with p.beside(behind_address):
            p.biased = p.integer + f.bias
            p.below = (1 - f.bias) - p.integer
            p.delay(add_delay(f.exponent + 2))
            p.cut()
            # Without subnormals the exponent itself tells the rounder what to flush.
            tiny = (p.below > 0) if self.subnormals else Const(0, 1)
            p.drop = Mux(tiny, p.below[:steps], 0)
            p.exponent = Mux(tiny, 1, p.biased)
            p.underflow = ~p.huge & ~p.below[-1] & p.below[steps:-1].any() | p.huge & p.negative
            p.overflow = p.huge & ~p.negative
            p.delay(lut_delay(3))
        p.cut()

        p.sticky = Const(0, 1)
        p.scaled = p.y
        for k in reversed(range(steps if self.subnormals else 0)):
            p.scaled, p.sticky = shift_right_sticky_step(p.scaled, p.sticky, p.drop[k], 1 << k)
            p.delay(lut_delay(1))
            if k and (steps - k) % 2 == 0:
                p.cut()
        guard = coefficients.fraction - f.significand
        if not self.subnormals:
            # An integer operand may come out just below its power of two, and must not be flushed for that.
            nearly = p.y[guard:].all()
            p.scaled = Mux(nearly, Const(1 << coefficients.fraction, len(p.y)), p.y)
            p.exponent = (p.exponent + nearly).as_signed()
            p.delay(add_delay(f.exponent + 2) + lut_delay(3))
        round_and_pack(
            p,
            f,
            sign=Const(0, 1),
            exponent=p.exponent,
            significand=p.scaled[guard + 1 :],
            guard=p.scaled[guard],
            sticky=p.scaled[:guard].any() | p.sticky,
            nan=p.is_nan,
            inf=p.overflow,
            zero=p.underflow,
            subnormals=self.subnormals,
        )


class FP32Exp2(Exp2):
    """:class:`Exp2` of FP32; combinational unless a profile is given."""

    def __init__(self, **parameters: Any) -> None:
        if "stages" not in parameters:
            parameters.setdefault("profile", "comb")
        super().__init__(FP32, **parameters)
