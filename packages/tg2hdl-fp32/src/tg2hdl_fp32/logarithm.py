"""Logarithms to any base, in any format."""

__all__ = ["Ln", "Log10", "Logarithm", "slope_table"]

from functools import cache

from amaranth.hdl import Cat, Const, Mux

from . import functions, series
from .elementary import OfAnyFormat
from .functions import PRECISION
from .multiplier import multiply
from .normalizing import normalize_operand, normalize_unpacked
from .pipeline import Pipeline
from .polynomial import PolynomialPiece, PolynomialTable, degree_for, fit, horner
from .scaled_result import round_scaled
from .series import Series
from .timing import add_delay, lut_delay
from .unpacked import unpack

_ONE = 1 << PRECISION


def _scaled(factor: int) -> Series:
    return lambda center, half, terms: [
        term * factor >> PRECISION for term in series.log2_slope(center, half, terms)
    ]


@cache
def slope_table(operand: int, significand: int, factor: int, scale: int) -> PolynomialTable:
    """Return the polynomials of ``factor * 2**scale * log2(1 + w) / w``, for `w` from 0 to 1/2, then from 0 to -1/4.

    Parameters
    ----------
    operand, significand : int
        Bits of the operand and of the result.
    factor : int
        In units of ``2**-PRECISION``.
    scale : int
        Power of two that brings the values to between 1/2 and 2.
    """
    degree = degree_for(significand)
    fraction = significand + 5 + degree.bit_length()
    for index in range(1, operand):
        pieces = [
            PolynomialPiece(_scaled(factor), 0, _ONE >> index + 1, 1 << index, scale),
            PolynomialPiece(_scaled(factor), -(_ONE >> operand), -(_ONE >> index + 2), 1 << index, scale),
        ]
        limit = 2 ** (fraction - significand - 3)
        table = fit(pieces, delta=operand - 2 - index, fraction=fraction, degree=degree, limit=limit)
        if table is not None:
            return table
    raise AssertionError("an interval is as small as needed")


class Logarithm(OfAnyFormat):
    """Logarithm of ``a`` to a constant base.

    Parameters
    ----------
    format, result, parameters
        As for :class:`OfAnyFormat`.

    Notes
    -----
    The operand is ``2**e * (1 + w)`` with `w` in [-1/4, 1/2), as for `Log2`. `e` times the logarithm of 2 and `w`
    times a smooth function are added; when `e` is 0, `w` is normalized before the product.
    """

    def of_two(self) -> int:
        """Logarithm of 2, in units of ``2**-PRECISION``, at most 1."""
        return _ONE

    def datapath(self, p: Pipeline) -> None:
        """Normalize, evaluate, multiply, add, normalize, round."""
        f, out = self.format, self.result_format
        # Two more bits, so that there is a place in each interval.
        more = max(5 - f.significand, 0)
        n = f.significand + more
        factor = self.of_two()
        # The function is between 1/2 and 2 with this scale.
        scale = 0 if factor > _ONE >> 1 else 1
        table = slope_table(n, out.significand, factor, scale)
        x = unpack(f, p.a, subnormals=self.subnormals)
        p.is_nan, p.is_zero, p.is_inf = x.is_nan | x.sign & ~x.is_zero, x.is_zero, x.is_inf
        normalize_unpacked(p, x, f, subnormals=self.subnormals)
        p.power = (p.field - p.significand_places).as_signed()
        p.high = p.significand[-2]
        p.delay(add_delay(f.exponent))
        p.cut()
        low = Cat(Const(0, more), p.significand)[: n - 2]
        p.inverted = low ^ p.high.replicate(n - 2)
        p.above = (p.power + p.high).as_signed()
        p.delay(add_delay(len(p.power)) + lut_delay())
        start = p.mark()
        index = Cat(p.inverted[table.delta :], p.high)
        horner(p, table, "slope", index, p.inverted[: table.delta], target=self.target)
        whole = (f.bias + f.significand).bit_length()
        with p.beside(start):
            p.w = Mux(p.high, p.inverted + 1, Cat(Const(0, 1), p.inverted))[: n - 1]
            p.far = p.above.any()
            p.whole = Mux(p.above[-1], -p.above, p.above)[:whole]
            p.below_one = Mux(p.far, p.above[-1], p.high)
            p.delay(add_delay(n) + lut_delay())
        p.cut()
        p.is_one = ~p.far & ~p.w.any()
        normalize_operand(p, "w", n - 1, hold="far")
        p.cut()
        # Units of 2**-rest, an eighth of what matters where the sum is smallest, a third of the logarithm of 2.
        rest = max(n, out.significand) + 6 + scale
        start = p.mark()
        multiply(p, "product", p.w, p.slope, target=self.target, cuts=4)
        with p.beside(start):
            constant = Const(factor >> PRECISION - rest, rest + 1)
            multiply(p, "base", p.whole, constant, target=self.target, cuts=4)
        p.cut()
        self._sum(p, table, n, scale, whole, rest)

    def _sum(self, p: Pipeline, table: PolynomialTable, n: int, scale: int, whole: int, rest: int) -> None:
        """Add, normalize and round."""
        f, out = self.format, self.result_format
        wide = n - 1 + len(p.slope)
        # The product is in units of 2**-(n + fraction + scale).
        width = whole + rest + 1
        cut = n + table.fraction + scale - rest
        part = Cat(p.product[cut:], Const(0, width))[:width]
        opposite = p.far & (p.high ^ p.below_one)
        base = Cat(p.base, Const(0, width))[:width]
        total = p.wire(Cat(opposite, base) + Cat(opposite, part ^ opposite.replicate(width)))[1 : width + 1]
        near = p.product[-width:] if wide >= width else Cat(Const(0, width - wide), p.product)
        p.total = Mux(p.far, total, near)
        # Weight of the top bit, of the sum and of the product.
        p.top = Mux(
            p.far, out.bias + whole, (out.bias + wide - 1 - n - table.fraction - scale) - p.w_places
        ).as_signed()
        p.delay(add_delay(width) + lut_delay())
        normalize_operand(p, "total", width)
        p.cut()
        p.scale = (p.top - p.total_places).as_signed()
        p.delay(add_delay(f.exponent + 2))
        round_scaled(
            p,
            out,
            value="total",
            exponent="scale",
            sign=Mux(p.is_zero, 1, p.below_one & ~p.is_inf),
            nan=p.is_nan,
            inf=p.wire(p.is_zero | p.is_inf),
            zero=p.is_one,
            subnormals=self.subnormals,
        )


class Ln(Logarithm):
    """Natural logarithm of ``a``: error below 1 ULP, in any format; monotone in FP32.

    Special values: NaN and operands below zero give NaN, +-0 gives -inf, +inf gives +inf, 1 gives +0.
    """

    operation = "ln"

    def of_two(self) -> int:
        """``ln 2``."""
        return functions.log_of_2()


class Log10(Logarithm):
    """Logarithm of ``a`` to base 10: error below 1 ULP, in any format; monotone in FP32.

    The special values are those of :class:`Ln`.
    """

    operation = "log10"

    def of_two(self) -> int:
        """``1 / log2(10)``."""
        ten = 3 * functions.log_of_2() + functions.log(5 << PRECISION - 2)
        return (functions.log_of_2() << PRECISION) // ten
