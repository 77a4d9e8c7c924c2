"""Golden evaluation of the posit ops, in numpy integers: the meaning of the ops in the compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import DType

__all__ = ["add", "div", "from_fp32", "from_fp32_type", "mul", "same_type", "sub", "to_fp32", "to_fp32_type"]

Integers = npt.NDArray[np.int64]
POSITS = (DType.UINT8, DType.UINT16, DType.UINT32)
_SIGNIFICAND = 28  # bits of the longest, that of posit32


def same_type(operands: tuple[DType, ...]) -> DType | None:
    """Two posits of one width give one."""
    return (
        operands[0] if len(operands) == 2 and operands[0] == operands[1] and operands[0] in POSITS else None
    )


def from_fp32_type(operands: tuple[DType, ...]) -> tuple[DType, ...] | None:
    """FP32 gives a posit of any width."""
    return POSITS if operands == (DType.FP32,) else None


def to_fp32_type(operands: tuple[DType, ...]) -> DType | None:
    """A posit gives FP32."""
    return DType.FP32 if len(operands) == 1 and operands[0] in POSITS else None


def _bits(x: Integers) -> Integers:
    """Bits of positive numbers below 2^63; 0 has none."""
    high = x >> 31
    upper, lower = (np.frexp(part.astype(np.float64))[1].astype(np.int64) for part in (high, x))
    return np.where(high > 0, upper + 31, lower)


def _decode(
    patterns: Any, width: int
) -> tuple[npt.NDArray[np.bool_], Integers, Integers, npt.NDArray[np.bool_]]:
    """Sign, exponent, significand of 28 bits (0 for zero and NaR) and whether it is NaR."""
    x = np.asarray(patterns).astype(np.int64)
    top = 1 << (width - 1)
    negative = x >= top
    body = np.where(negative, 2 * top - x, x) & (top - 1)
    ones = body >= top >> 1
    rest = _bits(np.where(ones, top - 1 - body, body))  # bits below the regime, its end among them
    run = width - 1 - rest
    regime = np.where(ones, run - 1, -run)
    tail = (body << 2) & ((1 << np.maximum(rest + 1, 2)) - 1)  # without that end, two zeros behind
    exponent = tail >> np.maximum(rest - 1, 0)
    places = np.maximum(rest - 1, 0)
    fraction = tail & ((1 << places) - 1)
    significand = (((1 << places) + fraction) << (_SIGNIFICAND - 1)) >> places
    special = body == 0
    return negative, 4 * regime + exponent, np.where(special, 0, significand), special & negative


def _encode(
    negative: Any, scale: Integers, significand: Integers, size: int, more: Any, nar: Any, result: DType
) -> npt.NDArray[Any]:
    """Round significands of `size` bits, 32 or more, top bit set unless zero; `more` tells that bits follow."""
    width = result.bit_width
    most = 4 * (width - 2)
    scale = np.clip(scale, -most - 1, most)
    regime = scale >> 2
    # A regime of k bits is 2^k - 2 or 1; then come two bits of exponent and the fraction.
    length = np.where(regime >= 0, regime + 2, 1 - regime)
    head = np.where(regime >= 0, (1 << np.maximum(regime + 2, 1)) - 2, 1)
    tail = ((scale & 3) << (size - 1)) | (significand & ((1 << (size - 1)) - 1))
    keep = width - 1 - length  # bits of the tail that fit
    drop = size + 1 - keep
    kept = np.where(keep > 0, head << np.maximum(keep, 0), head >> np.maximum(-keep, 0))
    body = kept | (tail >> np.minimum(drop, 62))
    guard = np.where(keep >= 0, (tail >> np.minimum(drop - 1, 62)) & 1, head & 1)
    below = np.where(keep >= 0, tail & ((1 << np.clip(drop - 1, 0, 61)) - 1), tail) != 0
    body = body + (guard & ((body & 1) | below | more))
    top = (1 << (width - 1)) - 1
    body = np.clip(body, 1, top)
    body = np.where(scale >= most, top, np.where(scale < -most, 1, body))
    value = np.where(negative, 2 * top + 2 - body, body)
    value = np.where(significand == 0, 0, value)
    return np.where(nar, top + 1, value).astype(result.numpy())


def _sum(x: Any, y: Any, flip: bool, result: DType) -> npt.NDArray[Any]:
    width = result.bit_width
    (s, e, m, nar), (t, f, n, other) = _decode(x, width), _decode(y, width)
    t = t ^ flip
    # 31 bits below the larger operand hold the shifted smaller one; the lowest bit is sticky.
    swap = (n > 0) & ((m == 0) | (f > e) | (f == e) & (n > m))
    big, small = np.where(swap, n, m) << 31, np.where(swap, m, n) << 31
    sign, scale = np.where(swap, t, s), np.where(swap, f, e)
    distance = np.where(small > 0, scale - np.where(swap, e, f), 0)
    moved = small >> np.minimum(distance, 62)
    lost = (moved << np.minimum(distance, 62)) != small
    moved |= lost
    total = np.where(s ^ t, big - moved, big + moved)
    bits = _bits(total)
    size = _SIGNIFICAND + 31
    # Back to one length: a carry drops a bit.
    carry = bits > size
    total = np.where(carry, (total >> 1) | (total & 1), total << np.maximum(size - bits, 0))
    return _encode(sign, scale + bits - size, total, size, False, nar | other, result)


def add(operands: tuple[Any, ...], types: tuple[DType, ...], result: DType) -> npt.NDArray[Any]:
    """``a + b``."""
    return _sum(*operands, False, result)


def sub(operands: tuple[Any, ...], types: tuple[DType, ...], result: DType) -> npt.NDArray[Any]:
    """``a - b``."""
    return _sum(*operands, True, result)


def mul(operands: tuple[Any, ...], types: tuple[DType, ...], result: DType) -> npt.NDArray[Any]:
    """``a * b``."""
    (s, e, m, nar), (t, f, n, other) = (_decode(x, result.bit_width) for x in operands)
    product = m * n
    size = 2 * _SIGNIFICAND
    carry = product >> (size - 1)
    product = np.where(carry, product, product << 1)
    return _encode(s ^ t, e + f + carry, product, size, False, nar | other, result)


def div(operands: tuple[Any, ...], types: tuple[DType, ...], result: DType) -> npt.NDArray[Any]:
    """``a / b``; NaR for a division by zero."""
    (s, e, m, nar), (t, f, n, other) = (_decode(x, result.bit_width) for x in operands)
    zero, n = n == 0, np.where(n == 0, 1, n)
    less = m < n
    numerator = np.where(less, m << 1, m) << 31
    quotient, rest = numerator // n, numerator % n
    return _encode(s ^ t, e - f - less, quotient, 32, rest != 0, nar | other | zero, result)


def from_fp32(operands: tuple[Any, ...], types: tuple[DType, ...], result: DType) -> npt.NDArray[Any]:
    """The posit of an FP32 number."""
    x = np.asarray(operands[0], np.float32)
    finite = np.isfinite(x)
    fraction, exponent = np.frexp(np.abs(np.where(finite, x, 0)).astype(np.float64))
    significand = np.ldexp(fraction, 32).astype(np.int64)
    return _encode(np.signbit(x), exponent.astype(np.int64) - 1, significand, 32, False, ~finite, result)


def to_fp32(operands: tuple[Any, ...], types: tuple[DType, ...], result: DType) -> npt.NDArray[np.float32]:
    """The FP32 number nearest to a posit; NaN for NaR."""
    negative, scale, significand, nar = _decode(operands[0], types[0].bit_width)
    value = np.ldexp(significand.astype(np.float64), scale - _SIGNIFICAND + 1)
    return np.where(nar, np.nan, np.where(negative, -value, value)).astype(np.float32)
