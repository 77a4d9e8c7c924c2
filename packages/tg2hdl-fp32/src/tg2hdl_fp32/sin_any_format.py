"""Sine and cosine of radians in any format, by polynomials."""

__all__ = ["most_cancelled", "sine_by_polynomials", "slope_table", "windows"]

from functools import cache
from typing import Any, Protocol

from amaranth.hdl import Cat, Const, Mux, Value

from . import series
from .format import Format
from .functions import PRECISION, two_over_pi
from .multiplier import multiply
from .normalizing import normalize_operand
from .pipeline import Pipeline
from .polynomial import PolynomialPiece, PolynomialTable, degree_for, fit, horner
from .rom import lookup
from .scaled_result import round_scaled
from .timing import add_delay, lut_delay
from .unpacked import unpack


class CircularFunction(Protocol):
    """What sine and cosine do differently, and the parameters of their core."""

    format: Format
    operation: str
    subnormals: bool
    target: str

    def quadrant(self, quadrant: Value) -> tuple[Value, Value]:
        """Return whether the function falls in a quadrant, and whether it is below zero there."""

    def signed_result(self, p: Pipeline, below: Value) -> Value:
        """Return whether the result is negative; `below` tells it for positive operands."""

    def small(self, p: Pipeline) -> tuple[Any, Any, Any]:
        """Return whether the operand passes unreduced, its significand and its exponent field."""


@cache
def windows(format: Format, least: int, fraction: int) -> tuple[int, ...]:
    """Bits of 2/pi, from weight 2 down, that count for a significand with exponent `least` and up.

    Parameters
    ----------
    format : Format
    least : int
        Exponent of the first window.
    fraction : int
        Fraction bits of a window.
    """
    count = format.emax - least + 1
    size = 1 << (count - 1).bit_length()
    total = fraction + size + format.significand
    digits = two_over_pi(total)
    mask = (1 << fraction + 2) - 1
    found = []
    for k in range(size):
        drop = total - (least + min(k, count - 1) - format.fraction) - fraction
        found.append(digits >> drop & mask)
    return tuple(found)


def _least_exponent(format: Format) -> int:
    """Return the exponent below which an operand is its own sine; subnormals have the smallest of all."""
    return max(-((format.significand + 1) // 2), format.emin)


@cache
def most_cancelled(format: Format) -> int:
    """Return how many leading zeros a reduced operand has at most.

    Of all multiples of a number, those by the denominators of its continued fraction come nearest to an integer, which
    bounds the distance of every significand times ``2/pi 2**exponent`` (Muller, "Elementary Functions", 2016, 11.1).
    """
    n, least = format.significand, _least_exponent(format)
    bits = 2 * n + 64
    digits = two_over_pi(bits + format.emax + 1)
    most = 0
    for exponent in range(least, format.emax + 1):
        # 2/pi 2**exponent for a significand of n - 1 fraction bits, modulo 1, in units of 2**-bits.
        unit = digits >> (format.emax + 1 - exponent + n - 1) & (1 << bits) - 1
        smallest = 1 if exponent == format.emin else 1 << n - 1
        if unit << n < 1 << bits:
            nearest = min(unit * smallest, (1 << bits) - unit * ((1 << n) - 1))
        else:
            nearest = _nearest_multiple(unit, bits, n)
        most = max(most, bits - nearest.bit_length())
    return most


def _nearest_multiple(unit: int, bits: int, n: int) -> int:
    """Return the least distance from an integer of ``k unit / 2**bits`` for k below ``2**n``."""
    dividend, divisor = 1 << bits, unit
    before, denominator = 0, 1
    while True:
        quotient, rest = divmod(dividend, divisor)
        following = before + quotient * denominator
        if following >> n:
            return divisor
        before, denominator, dividend, divisor = denominator, following, divisor, rest


@cache
def slope_table(significand: int) -> PolynomialTable:
    """Return the polynomials of ``sin(pi/2 x) / x`` on [0, 1), for results of so many bits."""
    degree = degree_for(significand)
    fraction = significand + 5 + degree.bit_length()
    places = significand + 4
    for index in range(1, places):
        piece = PolynomialPiece(series.sine_slope, 0, 1 << PRECISION - index, 1 << index)
        limit = 2 ** (fraction - significand - 4)
        table = fit([piece], delta=places - index, fraction=fraction, degree=degree, limit=limit)
        if table is not None:
            return table
    raise AssertionError("an interval is as small as needed")


def sine_by_polynomials(core: CircularFunction, p: Pipeline) -> None:
    """Reduce as by Payne and Hanek, multiply the place in the quarter turn with ``sin(pi/2 x) / x``, round.

    Parameters
    ----------
    core : CircularFunction
        A :class:`~tg2hdl_fp32.Sin` or `Cos`.
    p : Pipeline
    """
    f, n = core.format, core.format.significand
    least, table = _least_exponent(f), slope_table(n)
    kept = most_cancelled(f) + n + 5
    fraction = kept + n
    words = windows(f, least, fraction)
    x = unpack(f, p.a, subnormals=core.subnormals)
    p.negative, p.is_nan, p.is_zero = x.sign, x.is_nan | x.is_inf, x.is_zero
    p.significand, p.field = x.significand, x.exponent
    offset = (x.exponent - (f.bias + least)).as_signed()
    p.is_tiny = offset[-1] | x.is_zero
    p.delay(add_delay(f.exponent))
    address = offset[: max((len(words) - 1).bit_length(), 1)]
    lookup(p, "window", address, words, fraction + 2, target=core.target)
    multiply(p, "turns", p.significand, p.window, target=core.target)
    p.cut()
    falls, below = core.quadrant(p.turns[fraction : fraction + 2])
    p.sign = core.signed_result(p, below & ~p.is_tiny)
    place = p.turns[fraction - kept : fraction] ^ falls.replicate(kept)
    # A tiny operand is its own sine, and its cosine is 1.
    passes, significand, field = core.small(p)
    p.reduced = Mux(passes, Cat(Const(0, kept - n), significand), place)
    p.base = Mux(passes, field + 1, f.bias)
    p.delay(lut_delay(2))
    p.cut()
    start = p.mark()
    places = p.reduced[kept - n - 4 :]
    horner(p, table, "slope", places[table.delta :], places[: table.delta], target=core.target)
    with p.beside(start):
        normalize_operand(p, "reduced", kept)
    p.slope = Mux(p.is_tiny, 1 << table.fraction, p.slope)[: table.fraction + 1]
    p.delay(lut_delay())
    p.cut()
    p.power = (p.base - p.reduced_places).as_signed()
    multiply(p, "product", p.reduced[kept - n - 5 :], p.slope, target=core.target)
    width = n + 5 + table.fraction + 1
    # Of a factor in [1/2, 1) and a slope in [1, pi/2].
    product = Cat(p.product, Const(0, width))[:width]
    p.lifted = ~product[-1]
    p.sine = Mux(p.lifted, Cat(Const(0, 1), product[:-1]), product)
    p.cut()
    p.scale = (p.power - p.lifted).as_signed()
    p.delay(add_delay(f.exponent + 2))
    round_scaled(
        p,
        f,
        value="sine",
        exponent="scale",
        sign=p.sign,
        nan=p.is_nan,
        inf=Const(0),
        zero=p.is_zero if core.operation == "sin" else Const(0),
        subnormals=core.subnormals,
    )
