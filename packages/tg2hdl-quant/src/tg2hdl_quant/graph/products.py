"""Products of integers with a float32, rounded as a runtime does: by a narrow multiplier, or exactly.

ONNX Runtime computes ``rint(float32(sum) * multiplier)``.  Where no narrow multiplier gives the same for every sum, the
product is made of integer operations.  With ``P = |sum| * M``, where M is the 24-bit mantissa of the multiplier, the
exact product is ``P / 2^s``; let I be its whole part, of L bits, and d its fraction less one half.  Rounding to 24
significant bits moves a number to the tie when ``|d| <= 2^(L - 25)``; a tie goes to the even neighbour, which the last
bit of I decides.  So the result is I + 1 where d is greater, or where it is a tie and I is odd.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import DType, UnsupportedError
from tg2hdl_ir.tensors import GraphBuilder
from tg2hdl_ir.tensors.narrow_multipliers import Staircase, fit_staircase
from tg2hdl_quant.graph.values import IntegerSum

__all__ = ["by_float32_product", "fit_codes", "fit_products", "follows_float32", "rounded_product"]

Array = npt.NDArray[Any]
_BITS = 26
"""Widest multiplier that is tried; float32 itself has 24."""


def rounded_product(total: Array, multiplier: Array, offset: float = 0.0) -> Array:
    """Results of ONNX Runtime for int32 sums, before it adds the zero point and clips.

    Parameters
    ----------
    total : ndarray
        int32.
    multiplier : ndarray
        float32, for all or for each channel.
    offset : float, default 0.0
        Added before the rounding.
    """
    products = total.astype(np.float32) * np.asarray(multiplier, np.float32)
    return np.asarray(np.rint(products + np.float32(offset)))


def fit_products(
    multipliers: Array,
    low: int,
    high: int,
    first: int,
    last: int,
    offset: float = 0.0,
    *,
    rounded: Callable[[Array, Any], Array] | None = None,
    slope: float = 1.0,
) -> Staircase | None:
    """The smallest shift for which all channels have a multiplier; None where a channel has none.

    Parameters
    ----------
    multipliers : ndarray of float32
        Positive, for each channel.
    low, high : int
        Bounds of the sums.
    first, last : int
        Results beyond them are clipped.
    offset : float
        Added before the rounding.
    rounded : callable, optional
        Gives the results of sums and a multiplier, which never fall as the sum grows; `rounded_product` unless given.
    slope : float
        How many codes a sum times its multiplier is.
    """
    one = rounded or partial(rounded_product, offset=offset)
    channels = np.unique(np.asarray(multipliers, np.float32).reshape(-1))

    def codes(rows: slice, sums: Array) -> Array:
        return np.stack([one(s, m) for s, m in zip(sums, channels[rows], strict=True)])

    least, most = (np.full(len(channels), bound, np.int64) for bound in (low, high))
    found = fit_staircase(codes, channels.astype(np.float64) * slope, least, most, first, last, bits=_BITS)
    return found and found.at(np.searchsorted(channels, np.asarray(multipliers, np.float32)))


def fit_codes(slopes: Array, codes: Array, low: int, first: int, last: int) -> Staircase | None:
    """The smallest shift for which all channels have a multiplier that gives known codes; None where one has none.

    Parameters
    ----------
    slopes : ndarray of float64
        Codes for each step of the operand, for each channel; negative where the codes fall.
    codes : ndarray of int64
        Channels by operands, from the operand `low` on; each channel rises or falls.
    first, last : int
        Smallest and largest code.
    """
    falls, high = slopes < 0, low + codes.shape[1] - 1
    ordered = np.where(falls[:, None], codes[:, ::-1], codes)
    if np.any(np.diff(ordered) < 0):
        return None
    least, most = np.where(falls, -high, low), np.where(falls, -low, high)

    def known(rows: slice, sums: Array) -> Array:
        return np.take_along_axis(ordered[rows], sums - least[rows, None], axis=1)

    found = fit_staircase(known, np.abs(slopes), least, most, first, last, bits=_BITS)
    signs = np.where(falls, -1, 1)
    return found and Staircase(found.factor * signs, found.below, found.above, found.shift)


_MANTISSA = 24


def follows_float32(total: IntegerSum) -> bool:
    """Whether a sum is one integer with positive scales, which ONNX Runtime multiplies by a float32."""
    return len(total.terms) == 1 and bool(np.all(total.terms[0].scale > 0))


def by_float32_product(
    builder: GraphBuilder, total: IntegerSum, scale: float, limit: int, where: str
) -> tuple[int, int]:
    """Node with the rounded product, and its reach; right for all results up to `limit`, and beyond it beyond `limit`.

    Parameters
    ----------
    builder : GraphBuilder
    total : IntegerSum
        With one term.
    scale : float
        Of the codes.
    limit : int
        Largest magnitude of a result that is not saturated.
    where : str
        Layer, for the error.

    Raises
    ------
    UnsupportedError
        For sums above 24 bits, which float32 does not hold, that do not saturate, or a multiplier of 2^23 and more.
    """
    term = total.terms[0]
    multiplier = np.float32(term.scale) / np.float32(scale)
    fraction, exponent = np.frexp(multiplier.astype(np.float64))
    mantissa = (fraction * (1 << _MANTISSA)).astype(np.int64)
    shift = (_MANTISSA - exponent).astype(np.int64)
    spread = shift.max() - shift
    if (term.reach << int(spread.max())).bit_length() < 64 - _MANTISSA - 4:
        # One shift for all channels: only their multipliers differ.
        mantissa, shift = mantissa << spread, np.asarray(shift.max())
    added = np.rint(total.offset / term.scale).astype(np.int64)
    reach = term.reach + int(np.abs(added).max())
    # Sums that float32 does not hold are right too where all of them saturate.
    exact = min(reach, int((limit + 1) / float(multiplier.min())) + 1)
    if exact >= 1 << _MANTISSA or shift.min() < 1 or shift.max() > 61:
        raise UnsupportedError(
            f"a sum up to {reach} times {float(multiplier.max()):.3g} cannot be rounded as ONNX Runtime does",
            where=where,
            notes=("sums have up to 24 bits, multipliers lie between 2^-38 and 2^23",),
            hint="choose rounding='half_even', which differs in about one result of a million",
        )
    wide = DType.INT64

    def const(value: npt.ArrayLike) -> int:
        return builder.const(value, wide)

    def op(name: str, *sources: int) -> int:
        return builder.elementwise(name, *sources, dtype=wide)

    def where_true(name: str, a: int, b: int) -> int:
        return builder.cast(builder.elementwise(name, a, b, dtype=DType.BOOL), wide)

    value = op("ADD", builder.cast(term.node, wide), const(added))
    negative = builder.elementwise("CMPLT", value, const(0), dtype=DType.BOOL)
    magnitude = builder.elementwise("WHERE", negative, op("MUL", value, const(-1)), value, dtype=wide)
    product = op("MUL", magnitude, const(mantissa))
    whole = op("SHR", product, const(shift))
    rest = op("AND", product, const((np.int64(1) << shift) - 1))
    distance = op("ADD", rest, const(-(np.int64(1) << (shift - 1))))
    # 2^(s + L - 25), 0 below 1: it doubles with each bit of the whole part.
    tie = const(_tie(shift, 0))
    for length in range(1, limit.bit_length() + 2):
        longer = builder.elementwise("CMPLT", const((1 << (length - 1)) - 1), whole, dtype=DType.BOOL)
        tie = builder.elementwise("WHERE", longer, const(_tie(shift, length)), tie, dtype=wide)
    above = where_true("CMPLT", tie, distance)
    outside = where_true("CMPLT", distance, op("MUL", tie, const(-1)))
    near = op(
        "MUL",
        op("ADD", const(1), op("MUL", above, const(-1))),
        op("ADD", const(1), op("MUL", outside, const(-1))),
    )
    odd = op("AND", whole, const(1))
    rounded = op("ADD", whole, op("ADD", above, op("MUL", near, odd)))
    result = builder.elementwise("WHERE", negative, op("MUL", rounded, const(-1)), rounded, dtype=wide)
    return result, int(reach * float(multiplier.max())) + 2


def _tie(shift: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.int64]:
    exponent = shift + length - _MANTISSA - 1
    return np.where(exponent >= 0, np.int64(1) << np.maximum(exponent, 0), 0)
