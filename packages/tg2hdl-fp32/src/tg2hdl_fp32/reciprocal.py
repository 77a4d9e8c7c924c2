"""1 / x."""

__all__ = ["Reciprocal"]

from functools import cache

from amaranth.hdl import Cat, Const, Mux

from . import functions
from .elementary import ElementaryCore, evaluate, falling_table, flushes
from .format import Format
from .pipeline import Pipeline
from .rounding_known import choose_special, round_chosen
from .tables import QuadraticTable
from .timing import add_delay, lut_delay, reduce_delay
from .unpacked import unpack


@cache
def table(format: Format) -> QuadraticTable:
    """Return the coefficients for a format."""
    return falling_table(format, functions.reciprocal, binades=1)


class Reciprocal(ElementaryCore):
    """``1 / a``: exact for powers of two, error below 1 ULP, monotone.

    Only the two largest binades of subnormal operands have a finite reciprocal, so that two places of
    normalization are enough; likewise the result is subnormal by at most two places.

    Special values: NaN gives NaN, +-0 gives +-inf, +-inf gives +-0.
    """

    operation = "reciprocal"

    def datapath(self, p: Pipeline) -> None:
        """Normalize, look up, evaluate, shift to subnormal, round."""
        f = self.format
        coefficients = table(f)
        x = unpack(f, p.a, subnormals=self.subnormals)
        p.sign = x.sign
        p.is_nan = x.is_nan
        p.from_inf = x.is_inf
        p.to_inf = ~x.hidden & ~x.significand[-3:].any()
        # Exponent of the result before rounding: 2 bias - 1 - exponent, as many more as places of normalization.
        one_left, two_left = ~x.hidden & x.significand[-2], ~x.hidden & ~x.significand[-2]
        p.hidden, p.two_left = x.hidden, two_left
        p.field = x.exponent
        p.fraction = Mux(x.hidden, x.fraction, Mux(one_left, x.fraction << 1, x.fraction << 2))[: f.fraction]
        p.delay(lut_delay(4))
        p.cut()
        after_address = p.mark() + 1
        evaluate(
            p,
            coefficients,
            p.fraction[coefficients.delta :],
            p.fraction[: coefficients.delta],
            target=self.target,
        )
        with p.beside(after_address):
            top = 2 * f.bias - 1
            p.exponent = Mux(p.hidden, (top - p.field).as_signed(), Mux(p.two_left, top + 1, top)).as_signed()
            p.delay(add_delay(f.exponent) + lut_delay(0.5))
            p.cut()
            p.tiny = (p.exponent <= 0) if self.subnormals else Const(0, 1)
            p.delay(lut_delay(2))
        p.cut()
        guard = coefficients.fraction - f.significand - 1
        choose_special(
            p,
            f,
            sign=p.sign,
            nan=p.is_nan,
            inf=p.to_inf,
            zero=p.from_inf,
            over=Const(0),
            flush=None if self.subnormals else flushes(p.exponent, p.y[guard:]),
        )
        if self.subnormals:
            shifted = Mux(
                p.exponent[0], Cat(p.y[2:], Const(0, 2)) | p.y[:2].any(), Cat(p.y[1:], Const(0, 1)) | p.y[0]
            )
            p.value = Mux(p.tiny, shifted, p.y)[: coefficients.fraction]
            p.delay(lut_delay(1.5))
        else:
            p.value = p.y[: coefficients.fraction]
            p.delay(reduce_delay(f.significand) + lut_delay(2))
            p.cut()
        round_chosen(
            p,
            f,
            field=Mux(p.tiny, 1, p.exponent)[: f.exponent],
            significand=p.value[guard + 1 :],
            guard=p.value[guard],
            sticky=p.value[:guard].any(),
        )
