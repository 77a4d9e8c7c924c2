"""Exact references: rational arithmetic and one rounding, one value at a time."""

__all__ = ["reference"]

from collections.abc import Callable
from fractions import Fraction
from math import isqrt
from typing import Any

from ..errors import FloatParameterError, one_of
from ..format import Format
from ..modes import RoundingMode


def reference(
    operation: str, format: Format, *bits: int, rounding: RoundingMode = RoundingMode.RNE, **parameters: Any
) -> int:
    """Return the result pattern of an operation on patterns.

    Parameters
    ----------
    operation : str
        ``add sub mul div sqrt fma fmsub fnmadd fnmsub dot round compare minmax classify float_to_int int_to_float
        float_to_float neg abs``; ``dot`` takes any number of pairs of factors.
    format : Format
        Format of the operands.
    bits : int
        Operand patterns; the integer itself for ``int_to_float``.
    rounding : RoundingMode
        Direction.
    parameters
        Those of the core: ``predicate``, ``variant``, ``width``, ``signed``, ``point``, ``overflow``,
        ``result``, ``signs``, ``saturate``.
    """
    if operation not in _OPERATIONS:
        raise FloatParameterError(f"no reference for {operation!r}; there are {one_of(sorted(_OPERATIONS))}")
    return _OPERATIONS[operation](format, rounding, *bits, **parameters)


def _negative(format: Format, bits: int) -> bool:
    return bool(bits & format.sign_mask)


def _infinity(format: Format, negative: bool) -> int:
    return format.infinity | (format.sign_mask if negative else 0)


def _fma(format: Format, rounding: RoundingMode, a: int, b: int, c: int, *, saturate: bool = False) -> int:
    if any(map(format.is_nan, (a, b, c))):
        return format.nan
    sign = _negative(format, a) != _negative(format, b)
    if format.is_inf(a) or format.is_inf(b):
        if not (a & ~format.sign_mask and b & ~format.sign_mask):
            return format.nan
        if format.is_inf(c) and _negative(format, c) != sign:
            return format.nan
        return _infinity(format, sign)
    if format.is_inf(c):
        return c
    value = format.to_fraction(a) * format.to_fraction(b) + format.to_fraction(c)
    if value == 0:
        c_negative = _negative(format, c)
        exact_zero = format.to_fraction(a) * format.to_fraction(b) == 0 and format.to_fraction(c) == 0
        negative = sign if exact_zero and sign == c_negative else rounding is RoundingMode.RDN
        return format.encode(Fraction(0), negative_zero=negative)
    return format.encode(value, rounding, saturate=saturate)


def _dot(
    format: Format, rounding: RoundingMode, *factors: int, signs: str = "", saturate: bool = False
) -> int:
    """Sum of products of neighbours, which may be subtracted."""
    pairs = list(zip(factors[::2], factors[1::2], strict=True))
    minus = [sign == "-" for sign in signs or "+" * len(pairs)]
    if any(map(format.is_nan, factors)):
        return format.nan
    negative = [
        flip != (_negative(format, a) != _negative(format, b))
        for (a, b), flip in zip(pairs, minus, strict=True)
    ]
    infinite = [format.is_inf(a) or format.is_inf(b) for a, b in pairs]
    if any(infinite):
        signs_of_infinities = {sign for sign, far in zip(negative, infinite, strict=True) if far}
        undefined = any(
            far and not (a & ~format.sign_mask and b & ~format.sign_mask)
            for (a, b), far in zip(pairs, infinite, strict=True)
        )
        if undefined or len(signs_of_infinities) > 1:
            return format.nan
        return _infinity(format, signs_of_infinities.pop())
    products = [abs(format.to_fraction(a) * format.to_fraction(b)) for a, b in pairs]
    total = sum((-x if sign else x for x, sign in zip(products, negative, strict=True)), Fraction(0))
    if total == 0:
        alike = not any(products) and len(set(negative)) == 1
        return format.encode(total, negative_zero=negative[0] if alike else rounding is RoundingMode.RDN)
    return format.encode(total, rounding, saturate=saturate)


def _fmsub(format: Format, rounding: RoundingMode, a: int, b: int, c: int, *, saturate: bool = False) -> int:
    return _dot(format, rounding, a, b, c, format.one, signs="+-", saturate=saturate)


def _fnmadd(format: Format, rounding: RoundingMode, a: int, b: int, c: int, *, saturate: bool = False) -> int:
    return _dot(format, rounding, a, b, c, format.one, signs="--", saturate=saturate)


def _fnmsub(format: Format, rounding: RoundingMode, a: int, b: int, c: int, *, saturate: bool = False) -> int:
    return _dot(format, rounding, a, b, c, format.one, signs="-+", saturate=saturate)


def _classify(format: Format, rounding: RoundingMode, a: int) -> int:
    if format.is_nan(a):
        quiet = format.finite or a >> format.fraction - 1 & 1
        return 1 << (9 if quiet else 8)
    magnitude = a & ~format.sign_mask
    place = 3 if format.is_inf(a) else 2 if magnitude >= format.min_normal else 1 if magnitude else 0
    return 1 << (3 - place if _negative(format, a) else 4 + place)


def _add(format: Format, rounding: RoundingMode, a: int, b: int, *, saturate: bool = False) -> int:
    return _fma(format, rounding, a, format.one, b, saturate=saturate)


def _sub(format: Format, rounding: RoundingMode, a: int, b: int, *, saturate: bool = False) -> int:
    flipped = b if format.is_nan(b) else b ^ format.sign_mask
    return _fma(format, rounding, a, format.one, flipped, saturate=saturate)


def _mul(format: Format, rounding: RoundingMode, a: int, b: int, *, saturate: bool = False) -> int:
    zero = format.sign_mask if _negative(format, a) != _negative(format, b) else 0
    return _fma(format, rounding, a, b, zero, saturate=saturate)


def _div(format: Format, rounding: RoundingMode, a: int, b: int, *, saturate: bool = False) -> int:
    if format.is_nan(a) or format.is_nan(b):
        return format.nan
    negative = _negative(format, a) != _negative(format, b)
    if format.is_inf(a):
        return format.nan if format.is_inf(b) else _infinity(format, negative)
    if format.is_inf(b):
        return format.encode(Fraction(0), negative_zero=negative)
    x, y = format.to_fraction(a), format.to_fraction(b)
    if y == 0:
        return format.nan if x == 0 or format.finite else _infinity(format, negative)
    return format.encode(x / y, rounding, negative_zero=negative, saturate=saturate)


def _sqrt(format: Format, rounding: RoundingMode, a: int) -> int:
    if format.is_nan(a) or not a & ~format.sign_mask:
        return format.nan if format.is_nan(a) else a
    if _negative(format, a):
        return format.nan
    if format.is_inf(a):
        return a
    value = format.to_fraction(a)
    # An even power of two makes the root an integer with more bits than any rounding can see.
    scale = 2 * (2 * format.significand + format.bias + 8)
    root = isqrt(value.numerator * (1 << scale) // value.denominator)
    exact = Fraction(root) ** 2 == value * (1 << scale)
    return format.encode(Fraction(2 * root + (not exact), 2 << (scale // 2)), rounding)


def _round(format: Format, rounding: RoundingMode, a: int) -> int:
    if format.is_nan(a):
        return format.nan
    if format.is_inf(a):
        return a
    value = format.to_fraction(a)
    whole = rounding.round_fraction(abs(value), value < 0)
    return format.encode(Fraction(-whole if value < 0 else whole), negative_zero=_negative(format, a))


def _compare(format: Format, rounding: RoundingMode, a: int, b: int, *, predicate: str) -> int:
    if format.is_nan(a) or format.is_nan(b):
        return int(predicate in ("uno", "ne") or predicate[0] == "u")
    x, y = _order(format, a), _order(format, b)
    relation = predicate if len(predicate) == 2 else predicate[1:]
    outcomes = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}
    return int({"ord": True, "uno": False}.get(predicate, outcomes.get(relation, False)))


def _order(format: Format, bits: int) -> Fraction:
    if format.is_inf(bits):
        huge = Fraction(2) ** (format.emax + 2)
        return -huge if _negative(format, bits) else huge
    return format.to_fraction(bits)


def _minmax(format: Format, rounding: RoundingMode, a: int, b: int, *, variant: str) -> int:
    nans = format.is_nan(a), format.is_nan(b)
    largest = variant in ("maximum", "maximumNumber", "select_max")
    if variant.startswith("select"):
        if any(nans):
            return a
        x, y = _order(format, a), _order(format, b)
        return b if (y > x if largest else y < x) else a
    if any(nans):
        if variant.endswith("Number") and not all(nans):
            return b if nans[0] else a
        return format.nan
    keys = [(_order(format, bits), not _negative(format, bits), bits) for bits in (a, b)]
    return (max(keys) if largest else min(keys))[2]


def _float_to_int(
    format: Format,
    rounding: RoundingMode,
    a: int,
    *,
    width: int = 32,
    signed: bool = True,
    overflow: str = "saturate",
    point: int = 0,
) -> int:
    modulus = 1 << width
    low, high = (-(modulus >> 1), (modulus >> 1) - 1) if signed else (0, modulus - 1)
    if format.is_nan(a):
        return 0
    if format.is_inf(a):
        return 0 if overflow == "wrap" else (low if _negative(format, a) else high) % modulus
    value = format.to_fraction(a) * Fraction(2) ** point
    whole = rounding.round_fraction(abs(value), value < 0)
    whole = -whole if value < 0 else whole
    return (whole if overflow == "wrap" else min(max(whole, low), high)) % modulus


def _int_to_float(
    format: Format,
    rounding: RoundingMode,
    a: int,
    *,
    width: int = 32,
    signed: bool = True,
    point: int = 0,
    saturate: bool = False,
) -> int:
    return format.encode(Fraction(a) / Fraction(2) ** point, rounding, saturate=saturate)


def _float_to_float(
    format: Format, rounding: RoundingMode, a: int, *, result: Format, saturate: bool = False
) -> int:
    negative = _negative(format, a)
    if format.is_nan(a):
        return result.nan
    if format.is_inf(a):
        return result.nan if result.finite else _infinity(result, negative)
    return result.encode(format.to_fraction(a), rounding, negative_zero=negative, saturate=saturate)


_OPERATIONS: dict[str, Callable[..., int]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "sqrt": _sqrt,
    "fma": _fma,
    "fmsub": _fmsub,
    "fnmadd": _fnmadd,
    "fnmsub": _fnmsub,
    "dot": _dot,
    "classify": _classify,
    "round": _round,
    "compare": _compare,
    "minmax": _minmax,
    "float_to_int": _float_to_int,
    "int_to_float": _int_to_float,
    "float_to_float": _float_to_float,
    "neg": lambda format, rounding, a: a ^ format.sign_mask,
    "abs": lambda format, rounding, a: a & ~format.sign_mask,
}
