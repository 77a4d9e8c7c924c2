"""Exact references in fractions, written from the text of the standards; they share nothing with the hardware."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

__all__ = ["posit_result", "posit_value", "round_to_posit"]


@cache
def posit_value(bits: int, width: int) -> Fraction | None:
    """Number of a posit, None for NaR.

    The standard's formula reads the pattern of a negative number as it stands, without a complement.

    Parameters
    ----------
    bits, width : int
        Pattern and its number of bits.
    """
    text = f"{bits:0{width}b}"
    if "1" not in text[1:]:
        return None if text[0] == "1" else Fraction(0)
    sign, rest = int(text[0]), text[1:]
    run = len(rest) - len(rest.lstrip(rest[0]))
    regime = run - 1 if rest[0] == "1" else -run
    tail = rest[run + 1 :]
    exponent = int(tail[:2].ljust(2, "0"), 2)
    fraction = Fraction(int(tail[2:] or "0", 2), 1 << len(tail[2:]))
    return (1 - 3 * sign + fraction) * Fraction(2) ** ((1 - 2 * sign) * (4 * regime + exponent + sign))


def round_to_posit(x: Fraction, width: int) -> int:
    """Pattern of the posit that a number is rounded to.

    Between two posits, the number is compared with the posit of one more bit between them; a tie goes to the even one.

    Parameters
    ----------
    x : Fraction
    width : int
    """
    mask, top = (1 << width) - 1, (1 << (width - 1)) - 1
    if abs(x) >= _at(top, width):
        return top if x > 0 else -top & mask
    if 0 < abs(x) <= _at(1, width):
        return 1 if x > 0 else mask
    low, high = -top, top  # patterns as integers are in the order of their numbers
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _at(middle, width) <= x else (low, middle)
    between = _at(2 * low + 1, width + 1)
    if x != _at(low, width) and (x > between or (x == between and low % 2)):
        low += 1
    return low & mask


def _at(number: int, width: int) -> Fraction:
    value = posit_value(number & (1 << width) - 1, width)
    assert value is not None
    return value


def posit_result(operation: str, width: int, *patterns: int) -> int:
    """Pattern of ``add``, ``sub``, ``mul`` or ``div``.

    Parameters
    ----------
    operation : str
    width : int
    patterns : int
        Of the operands.
    """
    a, b = (posit_value(bits, width) for bits in patterns)
    if a is None or b is None or (operation == "div" and b == 0):
        return 1 << (width - 1)
    if operation == "div":
        return round_to_posit(a / b, width)
    return round_to_posit({"add": a + b, "sub": a - b, "mul": a * b}[operation], width)


_FIELDS = {"E5M2": (5, 2, 15), "E4M3": (4, 3, 7), "E3M2": (3, 2, 3), "E2M3": (2, 3, 1), "E2M1": (2, 1, 1)}
"""Bits of exponent and fraction, and the bias, as the specification lists them."""


@cache
def element_value(name: str, bits: int) -> Fraction | str:
    """Number of an element of a Microscaling block, or ``nan``, ``inf`` or ``-inf``.

    Parameters
    ----------
    name : str
        ``E5M2``, ``E4M3``, ``E3M2``, ``E2M3``, ``E2M1`` or ``INT8``.
    bits : int
    """
    if name == "INT8":
        return Fraction(bits - 256 if bits > 127 else bits, 64)
    exponent_bits, fraction_bits, bias = _FIELDS[name]
    text = f"{bits:0{1 + exponent_bits + fraction_bits}b}"
    sign = -1 if text[0] == "1" else 1
    exponent, fraction = int(text[1 : 1 + exponent_bits], 2), int(text[1 + exponent_bits :], 2)
    if name == "E5M2" and exponent == 31:
        return "nan" if fraction else "inf" if sign > 0 else "-inf"
    if name == "E4M3" and text[1:] == "1111111":
        return "nan"
    part = Fraction(fraction, 1 << fraction_bits)
    if exponent == 0:
        return sign * part * Fraction(2) ** (1 - bias)
    return sign * (1 + part) * Fraction(2) ** (exponent - bias)


def dot_value(name: str, a: list[int], b: list[int], a_scale: int, b_scale: int) -> Fraction | str:
    """Exact dot product of two blocks, or ``nan``, ``inf`` or ``-inf``.

    Parameters
    ----------
    name : str
        Of the elements.
    a, b : list of int
        Patterns.
    a_scale, b_scale : int
        Codes.
    """
    if 255 in (a_scale, b_scale):
        return "nan"
    total, far = Fraction(0), set()
    for x, y in zip(a, b, strict=True):
        u, v = element_value(name, x), element_value(name, y)
        if isinstance(u, Fraction) and isinstance(v, Fraction):
            total += u * v
        elif "nan" in (u, v) or 0 in (u, v):
            return "nan"
        else:
            far.add(_negative(u) != _negative(v))
    if far:
        return "nan" if len(far) > 1 else "-inf" if far.pop() else "inf"
    return total * Fraction(2) ** (a_scale + b_scale - 254)


def _negative(value: Fraction | str) -> bool:
    return value.startswith("-") if isinstance(value, str) else value < 0


def block_of(name: str, numbers: list[Fraction]) -> tuple[list[int], int]:
    """Patterns and scale of a block of finite numbers: the nearest of all elements to each, the even one of two.

    Parameters
    ----------
    name : str
        Of the elements.
    numbers : list of Fraction
    """
    width = 8 if name == "INT8" else 1 + sum(_FIELDS[name][:2])
    table = [(bits, element_value(name, bits)) for bits in range(1 << (width - 1))]
    elements = [(bits, value) for bits, value in table if isinstance(value, Fraction)]
    largest = max(abs(number) for number in numbers)
    exponent = _floor_log2(largest) - _floor_log2(elements[-1][1]) if largest else -127
    exponent = max(-127, min(127, exponent))
    patterns = []
    for number in numbers:
        scaled = abs(number) / Fraction(2) ** exponent
        code = min(elements, key=lambda e: (abs(e[1] - scaled), e[0] % 2))[0]
        if number < 0:
            code = -code & 255 if name == "INT8" else code | 1 << (width - 1)
        patterns.append(code)
    return patterns, exponent + 127


def _floor_log2(x: Fraction) -> int:
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= x else exponent - 1
