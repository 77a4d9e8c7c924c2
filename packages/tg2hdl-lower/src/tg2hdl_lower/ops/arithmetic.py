"""Combinational sums, differences and products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl_ir import DType

if TYPE_CHECKING:
    from amaranth import Module
    from amaranth.hdl import Value

__all__ = [
    "build_add",
    "build_mul",
    "build_neg",
    "build_sub",
    "signed_digits",
    "sum_of_pairs",
    "terms_by_constant",
]

Term = tuple[int, "Value"]
"""Sign of a term of a sum, and the term without it."""

_NARROW = 2
"""Bits of a factor that takes no multiplier."""


def build_add(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Sum.

    Parameters
    ----------
    m, operands, types, result
        As of `tg2hdl_ir.plugins.OpLowering`'s `build`.
    """
    return operands[0] | operands[1] if result.is_bool else operands[0] + operands[1]


def build_sub(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Difference.

    Parameters
    ----------
    m, operands, types, result
        As of `tg2hdl_ir.plugins.OpLowering`'s `build`.
    """
    return operands[0] ^ operands[1] if result.is_bool else operands[0] - operands[1]


def build_mul(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Product; by a constant or by two bits a few additions, which need no multiplier.

    Parameters
    ----------
    m, operands, types, result
        As of `tg2hdl_ir.plugins.OpLowering`'s `build`.
    """
    from amaranth.hdl import Const

    if result.is_bool:
        return operands[0] & operands[1]
    a, b = operands
    if isinstance(a, Const) or (len(a) < len(b) and not isinstance(b, Const)):
        a, b = b, a
    if isinstance(b, Const):
        return _by_constant(a, b.value, result.bit_width)
    return _by_bits(a, b) if len(b) <= _NARROW else a * b


def signed_digits(value: int) -> list[tuple[int, int]]:
    """A number as the shortest sum of ``sign << place``: its (sign, place) in non-adjacent form."""
    digits: list[tuple[int, int]] = []
    place = 0
    while value:
        if value & 1:
            sign = 2 - (value & 3)
            digits.append((sign, place))
            value -= sign
        value >>= 1
        place += 1
    return digits


def _by_constant(a: Value, constant: int, width: int) -> Value:
    """Product as a tree of sums and differences of shifted factors, modulo ``2 ** width``."""
    from amaranth.hdl import Const

    level = terms_by_constant(a, constant, width)
    while len(level) > 1:
        level = sum_of_pairs(level)
    if not level:
        return Const(0, 1)
    sign, total = level[0]
    return total if sign > 0 else -total


def terms_by_constant(a: Value, constant: int, width: int) -> list[Term]:
    """Shifted factors whose sum is the product by a constant modulo ``2 ** width``.

    Parameters
    ----------
    a : Value
        The other factor.
    constant : int
    width : int
        Bits of the product.
    """
    half = 1 << (width - 1)
    terms = signed_digits((constant + half) % (2 * half) - half)
    terms = [(sign, place) for sign, place in terms if place < width]
    # A sum begins with a positive term where there is one, so that none is negated by itself.
    terms.sort(key=lambda term: -term[0])
    return [(sign, a.shift_left(place)) for sign, place in terms]


def sum_of_pairs(level: list[Term]) -> list[Term]:
    """Half as many terms with the same sum."""
    pairs = [level[n : n + 2] for n in range(0, len(level), 2)]
    return [_joined(*pair) if len(pair) > 1 else pair[0] for pair in pairs]


def _joined(x: Term, y: Term) -> Term:
    (sign, a), (other, b) = x, y
    return (sign, a + b) if sign == other else (1, a - b if sign > 0 else b - a)


def _by_bits(a: Value, b: Value) -> Value:
    """Product by a factor of at most two bits."""
    from amaranth import Mux

    total = Mux(b[0], a, 0)
    if len(b) == 1:
        return -total if b.shape().signed else total
    high = Mux(b[1], a.shift_left(1), 0)
    return total - high if b.shape().signed else total + high


def build_neg(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Negation; of a bool, the value itself.

    Parameters
    ----------
    m, operands, types, result
        As of `tg2hdl_ir.plugins.OpLowering`'s `build`.
    """
    return operands[0] if result.is_bool else -operands[0]
