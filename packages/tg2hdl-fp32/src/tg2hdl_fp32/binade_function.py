"""Odd functions that rise ever more slowly from 0, as polynomials in each binade: tanh, erf, atan."""

__all__ = ["Atan", "BinadeFunction", "Erf", "Tanh", "binade_table"]

from dataclasses import dataclass
from functools import cache
from math import isqrt
from typing import ClassVar

from amaranth.hdl import Cat, Const, Mux

from . import functions, series
from .elementary import ElementaryCore
from .functions import PRECISION
from .normalizing import normalize_unpacked
from .pipeline import Pipeline
from .polynomial import PolynomialPiece, PolynomialTable, degree_for, fit, horner
from .rom import lookup
from .scaled_result import round_scaled
from .series import Series
from .timing import add_delay, lut_delay
from .unpacked import unpack

_ONE = 1 << PRECISION


@dataclass(frozen=True)
class Shape:
    """An odd function whose slope falls from that at 0.

    Attributes
    ----------
    series : callable
        Its Taylor series.
    slope, limit : int
        Slope at 0 and value at infinity, in units of ``2**-PRECISION``.
    power, rate : int
        The distance from the limit is below ``2**(1 - rate / 10 * x**power)``, or below ``1 / x`` where the power is 0.
    """

    series: Series
    slope: int
    limit: int
    power: int
    rate: int


_HALF_PI = functions.pi(PRECISION) >> 1
SHAPES = {
    "tanh": Shape(series.tanh, _ONE, _ONE, 1, 28),
    "erf": Shape(
        series.erf, 2 * (_ONE << PRECISION) // isqrt(functions.pi(PRECISION) << PRECISION), _ONE, 2, 14
    ),
    "atan": Shape(series.atan, _ONE, _HALF_PI, 0, 0),
}


def _constant(value: int) -> Series:
    return lambda center, half, terms: [value, *[0] * (terms - 1)]


def _linear(slope: int) -> Series:
    return lambda center, half, terms: [
        center * slope >> PRECISION,
        half * slope >> PRECISION,
        *[0] * (terms - 2),
    ]


@dataclass(frozen=True)
class BinadeTable:
    """Polynomials for each binade from `first` on; the one before is for all smaller operands, the last for all larger.

    Attributes
    ----------
    table : PolynomialTable
        Of the function times a power of two that brings it to [1/2, 2).
    first, count : int
        Exponent of the second binade, and number of binades.
    exponents : tuple of int
        Exponent of the result where the polynomial is in [1, 2); of the first one, relative to that of the operand.
    segments : int
        Bits of the operand that select an interval in a binade.
    """

    table: PolynomialTable
    first: int
    count: int
    exponents: tuple[int, ...]
    segments: int


@cache
def binade_table(name: str, significand: int, operand: int, lowest: int, highest: int) -> BinadeTable:
    """Return the polynomials of a function.

    Parameters
    ----------
    name : str
        Of :data:`SHAPES`.
    significand, operand : int
        Bits of the result and of the operand's significand.
    lowest, highest : int
        Least and largest exponent of an operand.
    """
    shape = SHAPES[name]
    bits = significand + 4
    # Below, the cube of the operand does not matter.
    first = max(-((bits + 1) // 2), lowest)
    last = 0 if shape.power else bits
    while shape.power and (1 << last * shape.power) * shape.rate < (bits + 1) * 10:
        last += 1
    last = max(min(last, highest + 1), first)
    degree = degree_for(significand)
    fraction = significand + 5 + degree.bit_length()
    for segments in range(1, operand):
        pieces, exponents = [], []
        scale = _scale(2 * shape.slope)
        pieces.append(PolynomialPiece(_linear(shape.slope), _ONE, _ONE >> segments, 1 << segments, scale))
        exponents.append(-scale)
        for exponent in range(first, last):
            start = _ONE << exponent if exponent >= 0 else _ONE >> -exponent
            scale = _scale(shape.series(2 * start, 0, 2)[0])
            pieces.append(PolynomialPiece(shape.series, start, start >> segments, 1 << segments, scale))
            exponents.append(-scale)
        scale = _scale(shape.limit)
        pieces.append(PolynomialPiece(_constant(shape.limit), _ONE, _ONE >> segments, 1 << segments, scale))
        exponents.append(-scale)
        table = fit(
            pieces,
            delta=operand - 1 - segments,
            fraction=fraction,
            degree=degree,
            limit=2 ** (fraction - significand - 3),
        )
        if table is not None:
            return BinadeTable(table, first, len(exponents), tuple(exponents), segments)
    raise AssertionError("an interval is as small as needed")


def _scale(value: int) -> int:
    """Power of two that brings a value to (1, 2]."""
    return PRECISION - (value - 1).bit_length() + 1


class BinadeFunction(ElementaryCore):
    """A function of :data:`SHAPES`: exponent and upper fraction bits select a polynomial in the other bits."""

    formats = None
    shape: ClassVar[str]
    #: Largest exponent of an operand, if it is known.
    highest: ClassVar[int | None] = None

    def datapath(self, p: Pipeline) -> None:
        """Normalize, look up, evaluate, round."""
        f = self.format
        n = f.significand
        # A short fraction gets zeros, so that there is a place in each interval.
        more = max(4 - n, 0)
        made = binade_table(
            self.shape, n, n + more, f.emin - f.fraction, f.emax if self.highest is None else self.highest
        )
        table = made.table
        x = unpack(f, p.a, subnormals=self.subnormals)
        p.sign, p.is_nan, p.is_inf, p.is_zero = x.sign, x.is_nan, x.is_inf, x.is_zero
        normalize_unpacked(p, x, f, subnormals=self.subnormals)
        p.power = (p.field - p.significand_places).as_signed()
        p.delay(add_delay(f.exponent))
        p.cut()
        number = (p.power - (made.first - 1)).as_signed()
        bits = (made.count - 1).bit_length()
        beyond = p.wire(number[bits:-1].any() | (number[:bits] >= made.count - 1))
        p.tiny = number[-1] | ~number[:-1].any()
        binade = p.wire(Mux(p.tiny, 0, Mux(beyond | p.is_inf, made.count - 1, number[:bits]))[:bits])
        p.binade = binade
        p.fraction = Cat(Const(0, more), p.significand[:-1])
        p.delay(add_delay(len(number)) + lut_delay(2))
        p.cut()
        # Exponents of the results, counted from the least one.
        least = min(made.exponents)
        offsets = [exponent - least for exponent in made.exponents]
        offsets += [0] * ((1 << bits) - len(offsets))
        start = p.mark()
        index = Cat(p.fraction[table.delta :], p.binade)
        horner(p, table, "y", index, p.fraction[: table.delta], target=self.target)
        with p.beside(start):
            lookup(p, "offset", p.binade, offsets, max(max(offsets).bit_length(), 1), target=self.target)
        p.scale = (Mux(p.tiny, p.power + made.exponents[0], p.offset + least) + f.bias).as_signed()
        width = table.fraction + 2
        y = p.wire(Cat(p.y, Const(0, width))[:width])
        # In units of 2**-fraction, from 1/2 to 2; an error may bring it to 2, and rounding does too.
        ones = Const((2 << table.fraction) - 1, table.fraction + 1)
        high, low = y[: table.fraction + 1], Cat(Const(0, 1), y[: table.fraction])
        p.lifted = ~y[-1] & ~y[-2]
        p.y = Mux(y[-1], ones, Mux(p.lifted, low, high))
        p.delay(add_delay(f.exponent + 2) + lut_delay())
        p.cut()
        p.scale = (p.scale - p.lifted).as_signed()
        p.delay(add_delay(f.exponent + 2))
        round_scaled(
            p,
            f,
            value="y",
            exponent="scale",
            sign=p.sign,
            nan=p.is_nan,
            inf=Const(0),
            zero=p.is_zero,
            subnormals=self.subnormals,
        )


class Tanh(BinadeFunction):
    """Hyperbolic tangent: error below 1 ULP, odd, in any format.

    It is not monotone: of the 2**32 operands of FP32, 180 have a result beyond that of their neighbor.

    Special values: NaN gives NaN, +-0 +-0, +-inf +-1.
    """

    operation = shape = "tanh"


class Erf(BinadeFunction):
    """Error function: error below 1 ULP, odd, in any format; the special values are those of :class:`Tanh`.

    It is not monotone: of the 2**32 operands of FP32, 84 have a result beyond that of their neighbor.
    """

    operation = shape = "erf"


class Atan(BinadeFunction):
    """Arc tangent: error below 1 ULP, odd, in any format.

    It is not monotone: of the 2**32 operands of FP32, 354 have a result beyond that of their neighbor.

    Special values: NaN gives NaN, +-0 +-0, +-inf +-pi/2.
    """

    operation = shape = "atan"
