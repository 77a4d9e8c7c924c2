"""Powers of e, 2 and 10 in any format."""

__all__ = ["Exp", "Exp10", "Power", "power_table"]

from functools import cache
from typing import Any, ClassVar

from amaranth.hdl import Cat, Const, Mux, signed

from . import functions, series
from .elementary import OfAnyFormat
from .functions import PRECISION
from .multiplier import multiply
from .pipeline import Pipeline
from .polynomial import PolynomialPiece, PolynomialTable, degree_for, fit, horner
from .scaled_result import round_scaled
from .timing import add_delay, lut_delay
from .unpacked import unpack


@cache
def power_table(significand: int) -> PolynomialTable:
    """Return the polynomials of 2**x on [0, 1), for results of so many bits."""
    degree = degree_for(significand)
    fraction = significand + 4 + degree.bit_length()
    places = significand + 5
    for index in range(1, places):
        piece = PolynomialPiece(series.exp2, 0, 1 << PRECISION - index, 1 << index)
        limit = 2 ** (fraction - significand - 2)
        table = fit([piece], delta=places - index, fraction=fraction, degree=degree, limit=limit)
        if table is not None:
            # A power of two is exact, and nothing is below it.
            first = (1 << fraction, *table.rows[0][1:])
            return PolynomialTable((first, *table.rows[1:]), table.delta, fraction, table.error + 2)
    raise AssertionError("an interval is as small as needed")


class Power(OfAnyFormat):
    """A constant base to the power of ``a``.

    Parameters
    ----------
    format, result, parameters
        As for :class:`OfAnyFormat`.

    Notes
    -----
    The operand times the logarithm of the base is a fixed-point number. Its integer part is the exponent of the
    result; its fraction goes to a table of polynomials.
    """

    overflows = True
    #: The base is 2, and there is nothing to multiply with.
    binary: ClassVar[bool] = False

    def logarithm(self, bits: int) -> int:
        """Logarithm of the base to base 2, with so many fraction bits."""
        raise NotImplementedError  # of base 2

    def datapath(self, p: Pipeline) -> None:
        """Multiply, shift to fixed point, evaluate, round."""
        f, out = self.format, self.result_format
        table = power_table(out.significand)
        places = out.significand + 5
        # Powers from below the smallest subnormal to above the largest number.
        whole = (out.bias + out.significand + 2).bit_length()
        x = unpack(f, p.a, subnormals=self.subnormals)
        p.negative, p.is_nan, p.is_inf = x.sign, x.is_nan, x.is_inf
        # The distance from the exponent of a number of `whole` bits before the point.
        size = max(f.exponent, (f.bias + whole).bit_length()) + 2
        p.down = (Const(f.bias + whole - 1, signed(size)) - x.exponent)[:size].as_signed()
        p.delay(add_delay(size) + lut_delay())
        if self.binary:
            p.product = x.significand
            ahead = 0
            p.cut()
        else:
            ahead = 2
            bits = places + whole + 2
            self._multiply(p, x.significand, bits)
        # Bits before the point: those of the operand, and of the constant, which is below 4.
        width = whole + ahead + places
        product = p.product
        p.fixed = product[-width:] if len(product) >= width else Cat(Const(0, width - len(product)), product)
        levels = width.bit_length()
        p.huge = p.down[-1]
        far = p.down[levels:-1].any() if size - 1 > levels else Const(0)
        p.gone = far
        for low in reversed(range(0, levels, 2)):
            for k in (low + 1, low):
                if k < levels:
                    p.fixed = Mux(p.down[k], p.fixed[min(1 << k, width) :], p.fixed)[:width]
                    p.delay(lut_delay())
            p.cut()
        p.fixed = Mux(p.gone, 0, p.fixed) ^ p.negative.replicate(width)
        p.delay(lut_delay(0.5))
        p.cut()
        p.integer = Cat(p.fixed[places:], p.negative).as_signed()
        horner(
            p,
            table,
            "y",
            p.fixed[places - table.index : places] if table.index else Const(0, 1),
            p.fixed[: table.delta],
            target=self.target,
        )
        top = p.y[table.fraction + 1 :].any() if len(p.y) > table.fraction + 1 else Const(0)
        ones = Const((2 << table.fraction) - 1, table.fraction + 1)
        y = Cat(p.y, Const(0, 1))[: table.fraction + 1]
        # The largest value may reach 2 by its error.
        p.y = Mux(top, ones, y)
        p.power = (p.integer + out.bias).as_signed()
        p.delay(lut_delay())
        round_scaled(
            p,
            out,
            value="y",
            exponent="power",
            sign=Const(0, 1),
            nan=p.is_nan,
            inf=p.wire(p.is_inf & ~p.negative),
            zero=p.wire((p.is_inf | p.huge) & p.negative),
            over=p.wire(p.huge & ~p.negative),
            subnormals=self.subnormals,
            saturate=self.saturate,
        )

    def _multiply(self, p: Pipeline, significand: Any, bits: int) -> None:
        multiply(p, "product", significand, Const(self.logarithm(bits), bits + 2), target=self.target)
        p.cut()


class Exp(Power):
    """``e**a``: error below 1 ULP, in any format; monotone in FP32.

    Special values: NaN gives NaN, +inf +inf, -inf 0; +-0 gives 1.
    """

    operation = "exp"

    def logarithm(self, bits: int) -> int:
        """``1 / ln 2``."""
        return (1 << PRECISION + bits) // functions.log_of_2()


class Exp10(Power):
    """``10**a``: error below 1 ULP, in any format; monotone in FP32; the special values are those of :class:`Exp`."""

    operation = "exp10"

    def logarithm(self, bits: int) -> int:
        """``log2(10) = 3 + log2(1.25)``."""
        fraction = (functions.log(5 << PRECISION - 2) << bits) // functions.log_of_2()
        return (3 << bits) + fraction
