"""2 to the power of x."""

__all__ = ["Exp2"]

from fractions import Fraction
from functools import cache

from amaranth.hdl import Cat, Const, Mux, signed

from . import functions
from .elementary import evaluate, flushes
from .format import BF16, FP16, FP32, Format
from .pipeline import Pipeline
from .power import Power
from .rounding_known import choose_special, round_chosen
from .tables import QuadraticTable, fit
from .timing import add_delay, lut_delay, reduce_delay
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


class Exp2(Power):
    """``2**a``: exact for integers, error below 1 ULP; monotone in FP32, FP16 and BF16.

    The operand becomes a fixed-point number; its integer part is the exponent, its fraction goes through a
    table of quadratics. A negative operand is complemented rather than negated: one unit in the last place of
    the fixed-point number, a tenth of an ULP of the result.

    Special values: NaN gives NaN, +inf +inf, -inf 0.
    """

    operation = "exp2"
    binary = True

    def datapath(self, p: Pipeline) -> None:
        """Shift to fixed point, look up, evaluate, shift to subnormal, round."""
        f = self.format
        if f not in (FP32, FP16, BF16) or self.result_format != f or self.saturate:
            super().datapath(p)
            return
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

        after_address = p.mark() + 1
        p.integer = Cat(p.fixed[places:], p.negative).as_signed()
        evaluate(
            p,
            coefficients,
            p.fixed[places - coefficients.index : places],
            p.fixed[: coefficients.delta],
            target=self.target,
        )
        steps = (f.significand + 1).bit_length()
        with p.beside(after_address):
            p.biased = p.integer + f.bias
            p.below = (1 - f.bias) - p.integer
            p.delay(add_delay(f.exponent + 2))
            p.cut()
            if self.subnormals:
                tiny = p.below > 0
                p.drop = Mux(tiny, p.below[:steps], 0)
                p.exponent = Mux(tiny, 1, p.biased)
            else:
                p.exponent = p.biased
            p.underflow = ~p.huge & ~p.below[-1] & p.below[steps:-1].any() | p.huge & p.negative
            beyond = p.biased[f.exponent : -1].any() | p.biased[: f.exponent].all()
            p.overflow = ~p.negative & (p.huge | beyond)
            p.delay(lut_delay(3))
        p.cut()

        guard = coefficients.fraction - f.significand
        choose_special(
            p,
            f,
            sign=Const(0, 1),
            nan=p.is_nan,
            inf=p.overflow,
            zero=p.underflow,
            over=Const(0),
            flush=None if self.subnormals else flushes(p.exponent, p.y[guard:]),
        )
        p.fallen = Const(0, 1)
        p.scaled = p.y
        if self.subnormals:
            _shift_right(p, steps)
        else:
            p.delay(reduce_delay(f.significand) + lut_delay(2))
            p.cut()
        round_chosen(
            p,
            f,
            field=p.exponent[: f.exponent],
            significand=p.scaled[guard + 1 :],
            guard=p.scaled[guard],
            sticky=p.scaled[:guard].any() | p.fallen.any(),
        )


def _shift_right(p: Pipeline, steps: int) -> None:
    """Shift ``p.scaled`` right by ``p.drop``, two bits of it to a stage; ``p.fallen`` has a bit set when one falls off.

    Bits that fall off are only gathered in groups in that stage, in parallel with the shift.
    """
    left = steps
    while left:
        bits = min(left, 2)
        left -= bits
        unit = 1 << left
        amount = p.drop[left : left + bits]
        # Whether a first, a second and a third unit fall off.
        reaches = [amount.any(), amount[-1], amount.all()][: (1 << bits) - 1]
        groups = [p.fallen.any()]
        for k, reached in enumerate(reaches):
            part = p.scaled[k * unit : (k + 1) * unit]
            groups += [part[low : low + 3].any() & reached for low in range(0, unit, 3)]
        p.fallen = Cat(*groups)
        for k in reversed(range(bits)):
            p.scaled = Mux(amount[k], p.scaled[unit << k :], p.scaled)
            p.delay(lut_delay())
        if left:
            p.cut()
