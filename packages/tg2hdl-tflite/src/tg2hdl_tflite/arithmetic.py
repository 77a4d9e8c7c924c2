"""The integer arithmetic of TensorFlow Lite Micro, in numpy: the definition that hardware is proven against.

Codes and sums are int64 arrays; a scale is a float32 of the file.  A factor becomes a pair: an integer of 31 bits and a
left shift, negative for the right.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.tensors.roundings import half_away_shift, high_product, multipliers

__all__ = [
    "absolute",
    "activation_limits",
    "clip",
    "divided",
    "elu",
    "hard_swish",
    "logistic",
    "mean_pair",
    "multiplier",
    "nearest",
    "quantized",
    "quotient",
    "reciprocal",
    "reciprocal_root",
    "scaled",
    "softmax_exponentials",
    "tanh",
]

Array = npt.NDArray[Any]
Pair: TypeAlias = tuple[Any, Any]
_TWO31 = 1 << 31


def multiplier(real: float) -> tuple[int, int]:
    """`multipliers` of one factor."""
    factor, shift = multipliers(real)
    return int(factor), int(shift)


def clip(x: Any, low: Any, high: Any) -> Array:
    """Within bounds.

    Parameters
    ----------
    x
        Codes or sums.
    low, high
        Least and greatest result.
    """
    return np.asarray(np.clip(x, low, high))


def wrapped(x: Any) -> Array:
    """The low 32 bits, signed."""
    return np.asarray(((np.asarray(x, np.int64) + _TWO31) & (2 * _TWO31 - 1)) - _TWO31)


def scaled(x: Any, pair: Pair) -> Array:
    """`x` times a factor, rounded at 31 bits and again after the right shift.

    Parameters
    ----------
    x
        Integers of 32 bits.
    pair : Pair
        Factor of 31 bits, and left shift.
    """
    factor, shift = (np.asarray(v, np.int64) for v in pair)
    moved = wrapped(np.asarray(x, np.int64) << np.maximum(shift, 0))
    return half_away_shift(high_product(moved, factor), np.maximum(-shift, 0))


def nearest(x: Any) -> Array:
    """Integers nearest to numbers of float64, halves away from zero; the sum with a half is rounded, as LiteRT's."""
    return np.asarray(np.trunc(x + np.copysign(0.5, x)).astype(np.int64))


def quantized(x: Any, scale: Any, zero: int, low: int = -128, high: int = 127) -> Array:
    """Codes of float32 numbers: divided in float32, halves away from zero.

    Parameters
    ----------
    x
        Numbers, computed with in float32.
    scale
        Of a step.
    zero : int
        Code of 0.
    low, high : int
        Least and greatest code.
    """
    value = np.clip(np.asarray(x, np.float32) / np.float32(scale), -(2.0**30), 2.0**30)
    whole = np.trunc(value)
    # A sum with a half would be rounded: the number below 0.5 gave 1.
    steps = whole + np.sign(value) * (np.abs(value - whole) >= 0.5)
    return clip(steps.astype(np.int64) + zero, low, high)


def activation_limits(activation: str, scale: float, zero: int, low: int, high: int) -> tuple[int, int]:
    """Codes that a fused activation allows.

    Parameters
    ----------
    activation : str
        Name in the schema: NONE, RELU, RELU_0_TO_1, RELU6 or RELU_N1_TO_1.
    scale, zero : float
        Of the codes.
    low, high : int
        Least and greatest code of the type.
    """
    bounds: dict[str, tuple[float | None, float | None]] = {
        "NONE": (None, None),
        "RELU": (0, None),
        "RELU_0_TO_1": (0, 1),
        "RELU6": (0, 6),
        "RELU_N1_TO_1": (-1, 1),
    }
    least, most = bounds[activation]

    def code(value: float) -> int:
        real = float(np.float32(value) / np.float32(scale))
        return zero + int(math.copysign(math.floor(abs(real) + 0.5), real))

    if least is not None:
        low = max(low, code(least))
    if most is not None:
        high = min(high, code(most))
    return low, high


def divided(total: Any, count: Any) -> Array:
    """``total / count``, halves away from zero; the half of the count is cut to an integer first.

    Parameters
    ----------
    total
        Sums.
    count
        Positive.
    """
    half = np.asarray(count) // 2
    return np.asarray(
        np.where(np.asarray(total) > 0, (total + half) // count, -((-np.asarray(total) + half) // count))
    )


def mean_pair(real: float, count: int) -> tuple[int, int]:
    """One factor for the scales and the count of a mean.

    Parameters
    ----------
    real : float
        Scale of the operand over that of the result.
    count : int
        Elements of each mean.
    """
    factor, shift = multiplier(real)
    extra = min(count.bit_length() - 1, 32, 31 + shift)
    return (factor << extra) // count, shift - extra


# Exponentials in fixed point: `bits` are the integer bits of a 32-bit argument.


def _constant(value: float, bits: int = 0) -> int:
    return math.floor(value * 2.0 ** (31 - bits) + 0.5)


def _saturated(x: Any, bits: int) -> Array:
    return clip(np.asarray(x, np.int64) << bits, -_TWO31, _TWO31 - 1)


def _exponential(a: Array, bits: int) -> Array:
    """exp(a) of a <= 0 in Q0.31: a polynomial on [-1/4, 0), then a factor for each bit above."""
    quarter = 1 << (29 - bits)
    part = (a & (quarter - 1)) - quarter
    x = _saturated(part, bits) + (1 << 28)
    x2 = high_product(x, x)
    x3, x4 = high_product(x2, x), high_product(x2, x2)
    series = half_away_shift(high_product(half_away_shift(x4, 2) + x3, _constant(1 / 3)) + x2, 1)
    eighth = _constant(math.exp(-1 / 8))
    result = eighth + high_product(eighth, x + series)
    rest = part - a
    for power in range(-2, bits):
        with_factor = high_product(result, _constant(math.exp(-(2.0**power))))
        result = np.where(rest & (1 << (31 - bits + power)), with_factor, result)
    return np.asarray(np.where(a == 0, _TWO31 - 1, result))


def _newton(a: Array) -> Array:
    """1 / ((1 + a) / 2) of a in [0, 1), in Q2.29, by three steps."""
    half = (a + _TWO31) // 2
    x = _constant(48 / 17, 2) + high_product(half, _constant(-32 / 17, 2))
    for _ in range(3):
        x = x + _saturated(high_product(x, (1 << 29) - high_product(half, x)), 2)
    return x


def reciprocal(a: Array) -> Array:
    """1 / (1 + a) in Q0.31."""
    return _saturated(_newton(a), 1)


def quotient(x: Any, y: Any, real: float) -> tuple[Array, Array]:
    """Steps of `x` over those of `y`, and the left shifts at the end: TFLM defines those from -31 to 0.

    Parameters
    ----------
    x, y
        Codes less their zero points; `y` is not 0.
    real : float
        Scale of `x` over those of `y` and of the result.
    """
    x, y = np.where(np.asarray(y) < 0, -np.asarray(x), x), abs(np.asarray(y, np.int64))
    room = 32 - _bit_length(y)
    headroom = 31 - _bit_length(np.where(x < 0, ~x, x))
    unscaled = scaled(x, (reciprocal((y << room) - _TWO31), headroom))
    factor, shift = multiplier(real)
    shifts = shift - (31 - room) - headroom
    return scaled(unscaled, (factor, np.clip(shifts, -31, 0))), shifts


def _bit_length(x: Array) -> Array:
    return np.asarray(np.frexp(x.astype(np.float64))[1], np.int64)


def reciprocal_root(x: Any, scale: Any, out_scale: Any, zero: int) -> Array:
    """Codes of 1 / sqrt of steps >= 0; that of 0 is 127.

    Parameters
    ----------
    x
        Steps: codes less the zero point.
    scale, out_scale
        Of a step of `x` and of the result.
    zero : int
        Code of 0 of the result.
    """
    steps = np.maximum(np.asarray(x, np.int64), 1)
    # Steps of 8 bits, moved by pairs of bits to [2^27, 2^29).
    pairs = (29 - _bit_length(steps)) // 2
    number = (steps << 2 * pairs) >> 1
    half = half_away_shift(number, 1)
    root = np.full(steps.shape, 1 << 28, np.int64)
    for _ in range(5):
        cube = _saturated(high_product(high_product(root, root), root), 6)
        root = _saturated(high_product(root, 3 << 27) - high_product(half, cube), 3)
    factors = np.where(steps == 1, _TWO31 - 1, high_product(root, _constant(math.sqrt(0.5))))
    shifts = np.where(steps == 1, 0, pairs - 11)
    factor, shift = multiplier(1 / (math.sqrt(float(scale)) * float(out_scale)))
    fine = scaled(1, (factors, shifts + 20))
    return np.where(np.asarray(x) <= 0, 127, clip(scaled(fine, (factor, shift - 20)) + zero, -128, 127))


def absolute(x: Any, scale: Any, out_scale: Any) -> Array:
    """Sizes of steps, in steps of the result.

    Parameters
    ----------
    x
        Steps: codes less the zero point.
    scale, out_scale
        Of a step of `x` and of the result.
    """
    return scaled(abs(x), multiplier(float(scale) / float(out_scale)))


def elu(x: Any, scale: Any, out_scale: Any, zero: int) -> Array:
    """Codes of the function in float32, halves away from zero.

    Parameters
    ----------
    x
        Steps: codes less the zero point.
    scale, out_scale
        Of a step of `x` and of the result.
    zero : int
        Code of 0 of the result.
    """
    number = np.float32(scale) * np.asarray(x, np.float32)
    low = np.exp(np.minimum(number, 0).astype(np.float64)).astype(np.float32) - np.float32(1)
    found = np.where(number < 0, low, number) * (np.float32(1) / np.float32(out_scale))
    return quantized(found, 1, zero)


def _softmax_scale(scale: Any, beta: float) -> tuple[int, int]:
    """Factor and left shift of differences of codes."""
    return multiplier(min(float(np.float32(beta)) * float(scale) * 2.0**26, 2.0**31 - 1))


def softmax_exponentials(scale: Any, beta: float) -> Array:
    """exp of the differences 0, -1, ... -255 of codes in Q0.31; 0 for those that are not summed.

    Parameters
    ----------
    scale
        Of a step of the codes.
    beta : float
        Factor of the exponent.
    """
    factor, shift = _softmax_scale(scale, beta)
    differences = -np.arange(256, dtype=np.int64)
    lowest = -math.floor(31 * 2.0**26 / 2.0**shift)
    powers = _exponential(high_product(wrapped(differences << max(shift, 0)), factor), 5)
    return np.asarray(np.where(differences >= lowest, powers, 0))


def _argument(x: Array, scale: Any) -> tuple[Array, Array, Array]:
    """Steps of a scale as numbers of 4 integer bits, and whether they leave them."""
    factor, shift = multiplier(float(scale) * 2.0**27)
    radius = math.floor(15 * 2.0**27 / 2.0**shift)
    return scaled(clip(x, -radius, radius), (factor, shift)), x <= -radius, x >= radius


def logistic(x: Array, scale: Any) -> Array:
    """Codes of scale 1/256 and zero point -128.

    Parameters
    ----------
    x : ndarray
        Steps: codes less the zero point.
    scale
        Of a step.
    """
    a, below, above = _argument(x, scale)
    positive = reciprocal(_exponential(-abs(a), 4))
    value = np.where(a == 0, 1 << 30, np.where(a > 0, positive, _TWO31 - 1 - positive))
    result = clip(half_away_shift(value, 23) - 128, -128, 127)
    return np.asarray(np.where(below, -128, np.where(above, 127, result)))


def tanh(x: Array, scale: Any) -> Array:
    """Codes of scale 1/128 and zero point 0.

    Parameters
    ----------
    x : ndarray
        Steps: codes less the zero point.
    scale
        Of a step.
    """
    a, below, above = _argument(x, scale)
    size = _saturated(_newton(_exponential(-abs(a), 5)) - (1 << 29), 2)
    value = np.where(a == 0, 0, np.where(a > 0, size, -size))
    result = clip(half_away_shift(value, 24), -128, 127)
    return np.asarray(np.where(below, -128, np.where(above, 127, result)))


def hard_swish(x: Array, scale: Any, out_scale: Any, zero: int) -> Array:
    """``x * relu6(x + 3) / 6`` in steps of 16 bits.

    Parameters
    ----------
    x : ndarray
        Steps: codes of int8 less the zero point.
    scale, out_scale
        Of a step of `x` and of the result.
    zero : int
        Code of 0 of the result.
    """
    fine = np.float32(1 / 128) * np.float32(scale)

    def short(real: Any) -> tuple[int, int]:
        factor, shift = multiplier(float(real))
        return min((factor + (1 << 15)) >> 16, 32767), shift

    def high16(a: Array, b: Any, rounded: bool = True) -> Array:
        product = np.asarray(a, np.int64) * b
        found = (product + (1 << 14)) >> 15 if rounded else np.sign(product) * (abs(product) >> 15)
        return np.asarray(np.minimum(found, 32767))

    out, out_shift = short(fine / np.float32(out_scale))
    factor, shift = short(fine / np.float32(3 / 32768))
    v = x << 7
    gate = v
    if shift > 0:
        gate = clip(gate << (shift - 1), -32768, 32767)
    gate = high16(gate, factor)
    if shift > 0:
        gate = clip(gate << 1, -32768, 32767)
    elif shift < 0:
        gate = half_away_shift(gate, -shift)
    gate = (gate + (1 << 15)) >> 1
    product = high16(gate, high16(v, out), rounded=False)
    # A factor above 1 shifts to the left.
    result = half_away_shift(product, -out_shift) if out_shift <= 0 else product << out_shift
    return clip(result + zero, -128, 127)
