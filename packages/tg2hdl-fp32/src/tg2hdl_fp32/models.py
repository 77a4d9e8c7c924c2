"""Models of the elementary functions, bit for bit, on whole numpy arrays.

Only this module needs numpy, and it is not imported by the cores.
"""

__all__ = ["MODELS", "cos", "exp2", "log2", "reciprocal", "rsqrt", "sin", "sin_turns"]

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from . import exp2 as exp2_core
from . import log2 as log2_core
from . import quarter_wave
from . import reciprocal as reciprocal_core
from . import rsqrt as rsqrt_core
from . import sin as sin_core
from . import sin_turns as sin_turns_core
from .format import FP32, Format
from .leading_product import ROWS, low_bits
from .tables import QuadraticTable

Array = npt.NDArray[np.int64]
Patterns = npt.NDArray[Any]


class _Operand:
    """Fields of an array of patterns, with subnormal significands normalized where that is asked for."""

    def __init__(self, format: Format, bits: Patterns) -> None:
        pattern = np.asarray(bits).astype(np.int64)
        self.pattern = pattern
        self.negative = pattern >> (format.width - 1) != 0
        self.fraction = pattern & (format.min_normal - 1)
        self.field = pattern >> format.fraction & ((1 << format.exponent) - 1)
        ones = self.field == (1 << format.exponent) - 1
        self.is_nan = ones & (self.fraction != 0)
        self.is_inf = ones & (self.fraction == 0)
        self.is_zero = (self.field == 0) & (self.fraction == 0)
        self.exponent = np.maximum(self.field, 1)
        self.significand = self.fraction | np.where(self.field != 0, format.min_normal, 0)

    def normalized(self, format: Format) -> tuple[Array, Array]:
        """Return significands with the top bit set, and unbiased exponents."""
        significand = np.where(self.is_zero, 1, self.significand)
        places = format.significand - _bit_length(significand)
        return significand << places, self.exponent - format.bias - places


def _bit_length(value: Array) -> Array:
    # float64 holds these integers exactly, so that its exponent is the position of the top bit.
    return np.frexp(value.astype(np.float64))[1].astype(np.int64)


def _evaluate(table: QuadraticTable, index: Array, u: Array) -> Array:
    c0, c1, c2 = (np.array(column, dtype=np.int64)[index] for column in zip(*table.rows, strict=True))
    falling, concave = (np.array(signs)[index] for signs in (table.falling, table.concave))
    top = u >> table.delta - table.fold - 1
    mask = (1 << table.fold) - 1
    distance = np.where(top > mask, top, ~top) & mask
    bend = distance * (distance + 1) * c2 >> table.curve_shift
    rise = u * c1 >> table.slope_shift
    return c0 + np.where(falling, -rise, rise) + np.where(concave, -bend, bend)


def _round(format: Format, exponent: Array, value: Array, guard: int) -> Array:
    """Round to nearest even and pack; `value` has `guard` + 1 dropped bits, `exponent` counts its top bit."""
    drop = np.clip(1 - exponent, 0, 62 - guard - format.significand)
    lost = (value & ((1 << drop) - 1)) != 0
    value = (value >> drop) << 1 | lost
    exponent = np.maximum(exponent, 1)
    kept, rest = value >> (guard + 2), value & ((1 << (guard + 2)) - 1)
    half = 1 << (guard + 1)
    kept = kept + ((rest > half) | ((rest == half) & (kept & 1 == 1)))
    packed = ((exponent - 1) << format.fraction) + kept
    saturated: Array = np.minimum(packed, format.infinity)
    return saturated


def _multiply_leading(a: Array, wide_a: int, b: Array, wide_b: int) -> tuple[Array, int]:
    """Return the product of factors of known widths without its lowest part, and how many bits that are."""
    la, lb = low_bits(wide_a), low_bits(wide_b)
    low_a, low_b = a & ((1 << la) - 1), b & ((1 << lb) - 1)
    high_a, high_b = a >> la, b >> lb
    rows = (low_a & ((1 << ROWS) - 1)) * high_b >> la
    further = (low_a >> ROWS) * high_b >> max(la - ROWS, 0)
    return high_a * high_b + rows + further + (high_a * low_b >> lb), la + lb


def _finish(format: Format, bits: Patterns, result: Array) -> Patterns:
    kind = np.uint32 if format.width == 32 else np.uint16
    return result.astype(np.asarray(bits).dtype if np.asarray(bits).dtype.kind == "u" else kind)


def exp2(bits: Patterns, format: Format = FP32) -> Patterns:
    """Return the results of :class:`~tg2hdl_fp32.Exp2` for an array of patterns.

    Parameters
    ----------
    bits : ndarray
        Patterns of the operands, of any shape.
    format : Format, optional
    """
    x = _Operand(format, bits)
    table = exp2_core.table(format)
    places = format.significand + 2
    width = format.exponent + places
    amount = format.bias + format.exponent - 1 - x.field
    shift = np.clip(amount, 0, 63)
    magnitude = np.where(amount > width, 0, x.significand << (width - format.significand)) >> shift
    fixed = np.where(x.negative, ~magnitude, magnitude)
    part = fixed & ((1 << places) - 1)
    y = _evaluate(table, part >> table.delta, part & ((1 << table.delta) - 1))
    result = _round(format, (fixed >> places) + format.bias, y, table.fraction - format.significand)
    huge = amount < 0
    result = np.where(huge, np.where(x.negative, 0, format.infinity), result)
    return _finish(format, bits, np.where(x.is_nan, format.nan, result))


def reciprocal(bits: Patterns, format: Format = FP32) -> Patterns:
    """Return the results of :class:`~tg2hdl_fp32.Reciprocal` for an array of patterns.

    Parameters
    ----------
    bits : ndarray
        Patterns of the operands, of any shape.
    format : Format, optional
    """
    x = _Operand(format, bits)
    table = reciprocal_core.table(format)
    significand, exponent = x.normalized(format)
    fraction = significand & (format.min_normal - 1)
    y = _evaluate(table, fraction >> table.delta, fraction & ((1 << table.delta) - 1))
    result = _round(format, format.bias - 1 - exponent, y, table.fraction - format.significand - 1)
    overflow = (x.field == 0) & (x.significand >> (format.fraction - 2) == 0)
    result = np.where(overflow, format.infinity, np.where(x.is_inf, 0, result))
    result |= np.where(x.negative, format.sign_mask, 0)
    return _finish(format, bits, np.where(x.is_nan, format.nan, result))


def rsqrt(bits: Patterns, format: Format = FP32) -> Patterns:
    """Return the results of :class:`~tg2hdl_fp32.Rsqrt` for an array of patterns.

    Parameters
    ----------
    bits : ndarray
        Patterns of the operands, of any shape.
    format : Format, optional
    """
    x = _Operand(format, bits)
    table = rsqrt_core.table(format)
    significand, exponent = x.normalized(format)
    fraction = significand & (format.min_normal - 1)
    index = (fraction >> table.delta) + (exponent & 1) * (len(table.rows) // 2)
    y = _evaluate(table, index, fraction & ((1 << table.delta) - 1))
    guard = table.fraction - format.significand - 1
    result = _round(format, format.bias - 1 - (exponent >> 1), y, guard)
    result = np.where(x.is_zero, format.infinity, np.where(x.is_inf, 0, result))
    result = np.where(x.is_nan | x.negative & ~x.is_zero, format.nan, result)
    return _finish(format, bits, result | np.where(x.negative & x.is_zero, format.sign_mask, 0))


def log2(bits: Patterns, format: Format = FP32) -> Patterns:
    """Return the results of :class:`~tg2hdl_fp32.Log2` for an array of patterns.

    Parameters
    ----------
    bits : ndarray
        Patterns of the operands, of any shape.
    format : Format, optional
    """
    x = _Operand(format, bits)
    n = format.significand
    table = log2_core.table(format)
    significand, exponent = x.normalized(format)
    high = significand >> (n - 2) & 1
    low = significand & ((1 << n - 2) - 1)
    inverted = np.where(high == 1, low ^ ((1 << n - 2) - 1), low)
    index = (inverted >> table.delta) + high * (len(table.rows) // 2)
    y = _evaluate(table, index, inverted & ((1 << table.delta) - 1))
    w = np.where(high == 1, inverted + 1, inverted << 1)
    whole = exponent + high
    near_one = whole == 0
    places = np.where(near_one, n - 1 - _bit_length(np.maximum(w, 1)), 0)
    normal = np.asarray(w << places, dtype=np.int64)
    product, dropped = _multiply_leading(normal, n - 1, y, table.value_bits)
    fraction = n + table.fraction - dropped
    bits_whole = (format.bias + n).bit_length()
    width = bits_whole + fraction
    below_one = np.where(near_one, high == 1, whole < 0)
    apart = (high == 1) ^ (whole < 0)
    total = np.abs(whole) << fraction
    total = np.where(near_one, product << bits_whole, total + np.where(apart, -product, product))
    shift = width - _bit_length_long(np.maximum(total, 1))
    lead = np.where(near_one, -1 - places, bits_whole - 1) + format.bias - shift
    result = _round(format, lead, total << shift, width - n - 1)
    result = np.where(below_one, result | format.sign_mask, result)
    result = np.where(near_one & (w == 0), 0, result)
    result = np.where(x.is_inf, format.infinity, result)
    result = np.where(x.is_nan | x.negative, format.nan, result)
    return _finish(format, bits, np.where(x.is_zero, format.infinity | format.sign_mask, result))


def sin(bits: Patterns, format: Format = FP32) -> Patterns:
    """Return the results of :class:`~tg2hdl_fp32.Sin` for an array of patterns.

    Parameters
    ----------
    bits : ndarray
        Patterns of the operands, of any shape.
    format : Format, optional
    """
    return _circular(bits, format, cosine=False)


def cos(bits: Patterns, format: Format = FP32) -> Patterns:
    """Return the results of :class:`~tg2hdl_fp32.Cos` for an array of patterns.

    Parameters
    ----------
    bits : ndarray
        Patterns of the operands, of any shape.
    format : Format, optional
    """
    return _circular(bits, format, cosine=True)


def _circular(bits: Patterns, format: Format, *, cosine: bool) -> Patterns:
    x = _Operand(format, bits)
    windows, fraction, kept = sin_core.reduction(format)
    offset = x.exponent - (format.bias + sin_core.least_exponent(format))
    tiny = offset < 0
    index = np.clip(offset, 0, len(windows) - 1)
    # The product modulo 4, from pieces of the window that leave room for the carries.
    reduced = np.zeros_like(x.significand)
    carry = np.zeros_like(x.significand)
    quadrant = np.zeros_like(x.significand)
    position, piece = 0, 32
    collected: list[tuple[int, Array]] = []
    while position < fraction + 2:
        digits = np.array([w >> position & (1 << piece) - 1 for w in windows], dtype=np.int64)[index]
        total = x.significand * digits + carry
        collected.append((position, total & ((1 << piece) - 1)))
        carry = total >> piece
        position += piece
    base = fraction - kept
    for position, digits in collected:
        shift = position - base
        if shift > -piece:
            reduced |= digits << shift if shift >= 0 else digits >> -shift
        inside = fraction - position
        if -2 < inside < piece:
            quadrant |= digits >> inside if inside >= 0 else digits << -inside
    quadrant = quadrant + cosine & 3
    reduced &= (1 << kept) - 1
    reduced = np.where(quadrant & 1 == 1, reduced ^ ((1 << kept) - 1), reduced)
    negative = (x.negative & (not cosine)) ^ ((quadrant & 2 != 0) & ~tiny)
    significand, field = x.significand, x.exponent
    if cosine:
        significand, field = np.full_like(significand, format.min_normal), np.full_like(field, format.bias)
    exponent = np.where(tiny, field, 0)
    result = _quarter_wave(format, reduced, kept, tiny, significand, exponent, unchanged=True)
    result = result | np.where(negative, format.sign_mask, 0)
    return _finish(format, bits, np.where(x.is_nan | x.is_inf, format.nan, result))


def sin_turns(bits: Patterns, format: Format = FP32) -> Patterns:
    """Return the results of :class:`~tg2hdl_fp32.SinTurns` for an array of patterns.

    Parameters
    ----------
    bits : ndarray
        Patterns of the operands, of any shape.
    format : Format, optional
    """
    x = _Operand(format, bits)
    n = format.significand
    kept = sin_turns_core.kept_bits(format)
    mask = (1 << kept) - 1
    places = x.exponent - (format.bias - n - 3)
    shift = np.clip(places, 0, 63)
    # Only the bits of the significand that stay within a turn are shifted.
    inside = np.where(shift > kept + 1, 0, x.significand & ((1 << np.clip(kept + 2 - shift, 0, n)) - 1))
    fixed = np.where(places < 0, 0, inside << np.minimum(shift, kept + 1))
    place, quadrant = fixed & mask, fixed >> kept
    odd, whole = quadrant & 1 == 1, place == 0
    small = x.exponent < format.bias + sin_turns_core.least_exponent(format)
    reduced = np.where(odd, np.where(whole, mask, (mask + 1 - place) & mask), place)
    lift = np.where(x.field != 0, 0, np.where(x.significand >> (n - 2) != 0, 1, 2))
    field = np.where(x.field != 0, x.field + 2, np.where(lift == 1, 2, 1))
    result = _quarter_wave(format, reduced, kept, small, x.significand << lift, field, unchanged=False)
    zero = whole & ~odd & ~small
    result = np.where(zero, 0, result)
    negative = x.negative ^ ((quadrant & 2 != 0) & ~zero)
    result = result | np.where(negative, format.sign_mask, 0)
    return _finish(format, bits, np.where(x.is_nan | x.is_inf, format.nan, result))


def _quarter_wave(
    format: Format,
    reduced: Array,
    kept: int,
    passes: npt.NDArray[np.bool_],
    significand: Array,
    field: Array,
    *,
    unchanged: bool,
) -> Array:
    """Return the magnitude of the sine of a position in the quarter turn, or of an operand that passes."""
    n = format.significand
    factor_bits = n + 3
    table = quarter_wave.table(format)
    place = reduced >> (kept - n - 2)
    y = _evaluate(table, place >> table.delta, place & ((1 << table.delta) - 1))
    most = (1 << (kept - factor_bits).bit_length()) - 1
    zeros = np.minimum(kept - _bit_length_long(reduced), most)
    factor = (reduced << zeros & ((1 << kept) - 1)) >> (kept - factor_bits)
    factor = np.where(passes, significand << (factor_bits - n), factor)
    slope = np.where(passes, 1 << table.fraction, y) if unchanged else y
    product, dropped = _multiply_leading(factor, factor_bits, slope, table.value_bits)
    full = factor_bits + table.fraction - dropped
    top = product >> full & 1
    exponent = np.where(passes, field, format.bias - 1 - zeros) + top
    value = np.where(top == 1, product, product << 1) & ((1 << full + 1) - 1)
    # A subnormal operand passes with its leading zeros, and is not rounded there.
    return _round(format, exponent, value, full - n)


def _bit_length_long(value: Array) -> Array:
    high = value >> 32
    return np.where(high != 0, 32 + _bit_length(high), _bit_length(value & 0xFFFFFFFF))


#: Models by the name of the operation.
MODELS: dict[str, Callable[[Patterns, Format], Patterns]] = {
    "cos": cos,
    "exp2": exp2,
    "log2": log2,
    "reciprocal": reciprocal,
    "rsqrt": rsqrt,
    "sin": sin,
    "sin_turns": sin_turns,
}
