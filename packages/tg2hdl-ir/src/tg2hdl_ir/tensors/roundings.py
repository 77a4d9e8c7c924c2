"""The roundings of this project: in numpy, as a right shift of integers, and in float operations of a graph.

``(x + bias + correction) >> shift`` rounds ``x / 2**shift``; the correction depends on x.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.plugins.descriptors import RoundingDef
from tg2hdl_ir.tensors.graph import GraphBuilder

__all__ = ["BUILTIN_ROUNDINGS", "code_sum", "half_away_shift", "high_product", "multipliers"]

Array = npt.NDArray[Any]
_F32 = DType.FP32


# In numpy


def _up(x: Array) -> Array:
    return np.copysign(np.ceil(np.abs(x)), x)


def _half_up(x: Array) -> Array:
    whole = np.floor(x)
    return np.asarray(whole + (x - whole >= 0.5))


def _half_away(x: Array) -> Array:
    return np.copysign(np.floor(np.abs(x) + np.float32(0.5)), x)


def _half_down(x: Array) -> Array:
    return np.copysign(np.ceil(np.abs(x) - np.float32(0.5)), x)


# As a right shift


def _half(shift: Array) -> Array:
    return np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)


def _below_half(shift: Array) -> Array:
    return _half(shift) - (shift > 0)


def _last_bit(builder: GraphBuilder, number: int, shift: Array, dtype: DType) -> int:
    """1 where the quotient is odd."""
    lowest = builder.elementwise("SHR", number, builder.const(shift, dtype), dtype=dtype)
    return builder.elementwise("AND", lowest, builder.const(np.minimum(shift, 1), dtype), dtype=dtype)


def _sign(builder: GraphBuilder, number: int, shift: Array, dtype: DType) -> int:
    """-1 where the number is negative."""
    zero = builder.const(0, dtype)
    negative = builder.elementwise("CMPLT", number, zero, dtype=DType.BOOL)
    minus = builder.const(-np.minimum(shift, 1), dtype)
    return builder.elementwise("WHERE", negative, minus, zero, dtype=dtype)


# As TensorFlow Lite has it: the high half of a product with 31 bits, then a shift, each rounded


def multipliers(reals: npt.ArrayLike) -> tuple[Array, Array]:
    """Factors as integers of 31 bits and left shifts, negative for the right; 0 below 2^-32."""
    fraction, exponent = np.frexp(np.asarray(reals, np.float64))
    integer = (np.sign(fraction) * np.floor(np.abs(fraction) * 2.0**31 + 0.5)).astype(np.int64)
    is_full = np.abs(integer) == 1 << 31
    integer, shift = np.where(is_full, integer // 2, integer), exponent.astype(np.int64) + is_full
    inside = shift >= -31
    return np.where(inside, integer, 0), np.where(inside, shift, 0)


def high_product(a: Any, b: Any) -> Array:
    """``a * b / 2^31``, halves upward; saturated at the top.

    Parameters
    ----------
    a, b
        Integers of 32 bits that broadcast.
    """
    return np.asarray(np.minimum((np.asarray(a, np.int64) * b + (1 << 30)) >> 31, (1 << 31) - 1))


def half_away_shift(x: Any, bits: Any) -> Array:
    """``x / 2^bits``, halves away from zero.

    Parameters
    ----------
    x
        Integers of up to 62 bits.
    bits
        From 0; broadcasts against `x`.
    """
    x, bits = np.asarray(x, np.int64), np.asarray(bits, np.int64)
    return np.asarray((x + _half(bits) - ((x < 0) & (bits > 0))) >> bits)


# As ONNX Runtime's QLinearAdd has it: fused products of float32


def code_sum(
    codes: Sequence[npt.NDArray[Any]],
    shapes: Sequence[tuple[int, ...]],
    scales: Sequence[float],
    zeros: Sequence[int],
    scale: float,
    zero: int,
    offset: float = 0.0,
) -> Array:
    """Codes of a sum, before they are saturated: ``rint(fma(a, sa / sc, fma(b, sb / sc, constant)))``.

    Parameters
    ----------
    codes, shapes, scales, zeros : sequence of two
        Of the operands, `a` and `b`, which are exchanged where the first is broadcast along the last axis; `codes` may
        have other shapes than the operands.
    scale, zero
        Of the result.
    offset
        A number that is added to the sum.
    """
    if _is_spread(*shapes):
        codes, scales, zeros = codes[::-1], scales[::-1], zeros[::-1]
    one, two = (np.float32(s) / np.float32(scale) for s in scales)
    # The constant has a fused product too.  Products of 8 and 24 bits are exact in float64, and so is their sum with
    # a float32 but for extreme scales.
    zeros_of_both = _fused(zeros[0], one, np.float32(zeros[1]) * two)
    constant = np.float32(zero) - zeros_of_both + np.float32(offset / scale)
    return np.asarray(np.rint(_fused(codes[0], one, _fused(codes[1], two, constant))))


def _is_spread(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Whether the first shape has one element along the last axis that is longer in either."""
    rank = max(len(first), len(second))
    pairs = zip((1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second, strict=True)
    return next((a == 1 for a, b in reversed(list(pairs)) if max(a, b) > 1), True)


def _fused(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` in float32, rounded once."""
    return (np.asarray(a, np.float64) * np.float64(b) + np.float64(c)).astype(np.float32)


# In float operations, of numbers that are small enough to convert


class _Floats:
    """Float operations on nodes of a graph."""

    def __init__(self, builder: GraphBuilder) -> None:
        self._builder = builder
        self.zero, self.one, self.half = (builder.const(c, _F32) for c in (0.0, 1.0, 0.5))

    def op(self, op: str, *sources: int) -> int:
        return self._builder.elementwise(op, *sources, dtype=_F32)

    def test(self, op: str, *sources: int) -> int:
        return self._builder.elementwise(op, *sources, dtype=DType.BOOL)

    def size(self, number: int) -> int:
        return self.op("MAX", number, self.op("NEG", number))

    def signed(self, size: int, number: int) -> int:
        return self.op("WHERE", self.test("CMPLT", number, self.zero), self.op("NEG", size), size)

    def split(self, number: int) -> tuple[int, int]:
        """Whole part toward zero, and the rest."""
        whole = self.op("TRUNC", number)
        return whole, self.op("SUB", number, whole)


def _even_floats(builder: GraphBuilder, number: int) -> int:
    f = _Floats(builder)
    whole, rest = f.split(number)
    size = f.size(rest)
    halved = f.op("MUL", whole, f.half)
    odd = f.test("CMPNE", halved, f.op("TRUNC", halved))
    tie = f.test("AND", f.test("CMPEQ", size, f.half), odd)
    away = f.test("OR", f.test("CMPLT", f.half, size), tie)
    return f.op("ADD", whole, f.op("WHERE", away, f.signed(f.one, rest), f.zero))


def _half_away_floats(builder: GraphBuilder, number: int) -> int:
    f = _Floats(builder)
    return f.signed(f.op("TRUNC", f.op("ADD", f.size(number), f.half)), number)


def _half_down_floats(builder: GraphBuilder, number: int) -> int:
    """The smallest whole size from size - 1/2 on."""
    f = _Floats(builder)
    below = f.op("ADD", f.size(number), f.op("NEG", f.half))
    return f.signed(f.op("MAX", _ceil_floats(builder, below), f.zero), number)


def _half_up_floats(builder: GraphBuilder, number: int) -> int:
    f = _Floats(builder)
    whole = _floor_floats(builder, number)
    below = f.test("CMPLT", f.op("SUB", number, whole), f.half)
    return f.op("ADD", whole, f.op("WHERE", below, f.zero, f.one))


def _ceil_floats(builder: GraphBuilder, number: int) -> int:
    f = _Floats(builder)
    whole, rest = f.split(number)
    return f.op("ADD", whole, f.op("WHERE", f.test("CMPLT", f.zero, rest), f.one, f.zero))


def _floor_floats(builder: GraphBuilder, number: int) -> int:
    f = _Floats(builder)
    whole, rest = f.split(number)
    return f.op("ADD", whole, f.op("WHERE", f.test("CMPLT", rest, f.zero), f.op("NEG", f.one), f.zero))


def _up_floats(builder: GraphBuilder, number: int) -> int:
    f = _Floats(builder)
    whole, rest = f.split(number)
    whole = f.op("ADD", whole, f.op("WHERE", f.test("CMPLT", f.zero, rest), f.one, f.zero))
    minus = f.op("NEG", f.one)
    return f.op("ADD", whole, f.op("WHERE", f.test("CMPLT", rest, f.zero), minus, f.zero))


def _down_floats(builder: GraphBuilder, number: int) -> int:
    return _Floats(builder).op("TRUNC", number)


BUILTIN_ROUNDINGS = (
    RoundingDef(
        "half_even",
        "to the nearest, halves to the even neighbour",
        np.rint,
        _below_half,
        _last_bit,
        floats=_even_floats,
    ),
    RoundingDef(
        "half_up", "to the nearest, halves toward +infinity", _half_up, _half, floats=_half_up_floats
    ),
    RoundingDef(
        "half_away",
        "to the nearest, halves away from zero",
        _half_away,
        _half,
        _sign,
        floats=_half_away_floats,
    ),
    RoundingDef("half_down", "to the nearest, halves toward zero", _half_down, floats=_half_down_floats),
    RoundingDef("floor", "toward -infinity", np.floor, np.zeros_like, floats=_floor_floats),
    RoundingDef("ceil", "toward +infinity", np.ceil, lambda shift: (1 << shift) - 1, floats=_ceil_floats),
    RoundingDef("down", "toward zero", np.trunc, floats=_down_floats),
    RoundingDef("up", "away from zero", _up, floats=_up_floats),
)
