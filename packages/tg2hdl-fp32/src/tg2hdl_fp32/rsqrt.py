"""1 / sqrt(x)."""

__all__ = ["Rsqrt"]

from functools import cache

from amaranth.hdl import Cat, Const

from . import functions
from .elementary import ElementaryCore, evaluate, falling_table
from .format import Format
from .normalizing import normalize_unpacked
from .pipeline import Pipeline
from .rounding_known import choose_special, round_chosen
from .tables import QuadraticTable
from .timing import add_delay, lut_delay
from .unpacked import unpack


@cache
def table(format: Format) -> QuadraticTable:
    """Return the coefficients for a format."""
    return falling_table(format, functions.rsqrt, binades=2)


class Rsqrt(ElementaryCore):
    """``1 / sqrt(a)``: exact for even powers of two, error below 1 ULP, monotone.

    Special values: NaN and operands below zero give NaN, +-0 gives +-inf, +inf gives 0.
    """

    operation = "rsqrt"

    def datapath(self, p: Pipeline) -> None:
        """Normalize, look up by the parity of the exponent and the fraction, evaluate, round."""
        f = self.format
        coefficients = table(f)
        x = unpack(f, p.a, subnormals=self.subnormals)
        p.sign = x.sign
        p.is_nan = x.is_nan | x.sign & ~x.is_zero
        p.is_zero, p.is_inf = x.is_zero, x.is_inf
        normalize_unpacked(p, x, f, subnormals=self.subnormals)
        p.power = (p.field - p.significand_places).as_signed()
        after_address = p.mark() + 1
        index = Cat(p.significand[coefficients.delta : -1], p.field[0] ^ p.significand_places[0])
        p.delay(lut_delay(2))
        evaluate(p, coefficients, index, p.significand[: coefficients.delta], target=self.target)
        with p.beside(after_address):
            p.exponent = ((f.bias - 1) - (p.power >> 1)).as_signed()
            p.delay(add_delay(f.exponent))
        p.cut()
        guard = coefficients.fraction - f.significand - 1
        choose_special(
            p,
            f,
            sign=p.sign & p.is_zero,
            nan=p.is_nan,
            inf=p.is_zero,
            zero=p.is_inf,
            over=Const(0),
        )
        round_chosen(
            p,
            f,
            field=p.exponent[: f.exponent],
            significand=p.y[guard + 1 :],
            guard=p.y[guard],
            sticky=p.y[:guard].any(),
        )
