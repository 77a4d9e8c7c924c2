"""Unpacked operands: fields, class and significand with its hidden bit."""

__all__ = ["Unpacked", "unpack"]

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Mux, Value

from .format import Format


@dataclass(frozen=True)
class Unpacked:
    """Combinational views of one operand.

    Attributes
    ----------
    sign : Value
        Sign bit.
    exponent : Value
        Exponent field, 1 for subnormal numbers, so that ``significand * 2**(exponent - bias - fraction)`` holds.
    field : Value
        Exponent field as stored.
    fraction : Value
        Fraction as stored.
    significand : Value
        Fraction with its hidden bit on top; zero for a subnormal operand that is read as zero.
    hidden : Value
        Hidden bit: the number is normal (or not finite).
    is_nan, is_signaling, is_inf, is_zero, is_subnormal : Value
        Class of the operand.
    """

    sign: Value
    exponent: Value
    field: Value
    fraction: Value
    significand: Value
    hidden: Value
    is_nan: Value
    is_signaling: Value
    is_inf: Value
    is_zero: Value
    is_subnormal: Value


def unpack(format: Format, bits: Value, *, subnormals: bool = True) -> Unpacked:
    """Unpack a bit pattern.

    Parameters
    ----------
    format : Format
        Format of the pattern.
    bits : Value
        The pattern.
    subnormals : bool
        ``False`` reads subnormal numbers as zero.
    """
    fraction = bits[: format.fraction]
    field = bits[format.fraction : format.width - 1]
    hidden = field.any()
    ones = field.all()
    if format.finite:
        is_nan = ones & fraction.all()
        is_inf: Value = Const(0)
        is_signaling: Value = Const(0)
    else:
        is_nan = ones & fraction.any()
        is_inf = ones & ~fraction.any()
        is_signaling = is_nan & ~fraction[-1]
    if subnormals:
        is_zero = ~hidden & ~fraction.any()
        is_subnormal = ~hidden & fraction.any()
        significand = Cat(fraction, hidden)
    else:
        is_zero = ~hidden
        is_subnormal = Const(0)
        significand = Cat(Mux(hidden, fraction, 0), hidden)
    return Unpacked(
        sign=bits[-1],
        exponent=Cat(field[0] | ~hidden, field[1:]),
        field=field,
        fraction=fraction,
        significand=significand,
        hidden=hidden,
        is_nan=is_nan,
        is_signaling=is_signaling,
        is_inf=is_inf,
        is_zero=is_zero,
        is_subnormal=is_subnormal,
    )
