"""Functions of one code: tables of 256 entries, made with TFLM's arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_tflite.arithmetic import (
    activation_limits,
    clip,
    hard_swish,
    logistic,
    multiplier,
    nearest,
    quantized,
    scaled,
    tanh,
)
from tg2hdl_tflite.node import TfliteNode, operator
from tg2hdl_tflite.operators.floats import bounded
from tg2hdl_tflite.operators.tables16 import logistic16, tanh16
from tg2hdl_tflite.requantize import clipped, lookup, requantized, two_roundings
from tg2hdl_tflite.value import LIMITS, Bounds, TfliteValue, dtype_of

__all__ = ["by_rows", "by_table"]

Array = npt.NDArray[Any]


def by_table(node: TfliteNode, x: TfliteValue, function: Callable[[Array], Array]) -> TfliteValue:
    """The result of a function of the codes less the zero point.

    Parameters
    ----------
    node : TfliteNode
        Whose output the result is.
    x : TfliteValue
        Codes; the table has an entry for each that can occur.
    function : callable
        From all codes less the zero point to those of the result.
    """
    low, high = x.codes.ends
    table = function(np.arange(low, high + 1, dtype=np.int64) - x.zero)
    bounds = Bounds(table.min(), table.max())
    codes = np.arange(low, high + 1)
    limits = int(table.min()), int(table.max())
    if np.array_equal(table, np.clip(codes, *limits)):
        number = clipped(x.tensor, *limits, (low, high)).cast(dtype_of(node.output.kind))
    else:
        number = lookup(node, x.tensor.cast(dtypes.int32) - low, table, dtype_of(node.output.kind))
    return TfliteValue(node.output, number, None, bounds)


def by_rows(node: TfliteNode, x: TfliteValue, rows: Array, places: Array) -> TfliteValue:
    """The result of several functions of the codes that can occur, by the place of each element among them.

    Parameters
    ----------
    node : TfliteNode
        Whose output the result is.
    x : TfliteValue
        Codes.
    rows : ndarray
        Codes of the result: one row for each function, one column for each code of `x`.
    places : ndarray
        Row of each element; broadcast against `x`.
    """
    low, high = x.codes.ends
    index = node.keep("places", places * (high + 1 - low) - low, dtypes.int32)
    number = lookup(node, x.tensor.cast(dtypes.int32) + index, rows.reshape(-1), dtypes.int8)
    return TfliteValue(node.output, number.expand(node.output.shape), None, Bounds(rows.min(), rows.max()))


def _rescaled(node: TfliteNode, x: TfliteValue, low: int, high: int, rescales: bool = True) -> TfliteValue:
    s_out, zero = node.out_quantization()
    pair = multiplier(float(node.scale_of(x)) / float(s_out))
    return by_table(
        node, x, lambda v: np.clip((scaled(v, pair) if rescales else v + x.zero - zero) + zero, low, high)
    )


@operator("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", version=3)
def relu(node: TfliteNode) -> Any:
    """RELU goes to the scale of the result; the others of TFLM keep the codes and clip by the input's scale."""
    x = node.input(0)
    if not node.is_codes(x, wide=True):
        return bounded(x.tensor, node.name)
    s_out, zero = node.out_quantization()
    if node.is_wide:
        return _relu_of_16_bits(node, x)
    if node.name == "RELU":
        return _rescaled(node, x, max(-128, zero), 127)
    if not node.is_micro:
        return _rescaled(node, x, *activation_limits(node.name, float(s_out), zero, -128, 127))
    if node.name != "RELU6":
        raise node.refuse("TFLM has no form of it for int8 codes", "fuse it into the layer before it")
    node.same_scales(x)
    top = int(quantized(np.array([6.0]), x.scale, x.zero)[0])
    return _rescaled(node, x, x.zero, top, rescales=False)


def _relu_of_16_bits(node: TfliteNode, x: TfliteValue) -> Tensor:
    """There is no table of 65536 entries."""
    node.micro_only()
    steps = x.tensor.cast(dtypes.int32)
    if node.name == "RELU":
        pair = multiplier(float(x.scale) / float(node.out_quantization()[0]))
        return clipped(two_roundings(node, steps, pair), 0, 32767, (-(1 << 31), 1 << 31)).cast(dtypes.int16)
    if node.name != "RELU6":
        raise node.refuse("TFLM has no form of it for int16 codes", "fuse it into the layer before it")
    node.same_scales(x)
    top = int(quantized(np.array([6.0]), x.scale, 0, *LIMITS["INT16"])[0])
    return clipped(steps, 0, top, (-32768, 32767)).cast(dtypes.int16)


@operator("LOGISTIC", version=3)
def logistic_(node: TfliteNode) -> Any:
    """By fixed-point exponentials; int16 by a table of sigmoids."""
    x = node.input(0)
    if not node.is_codes(x, wide=True):
        return x.tensor.sigmoid()
    if node.is_wide:
        _fixed_output(node, 1 / 32768, 0)
        return logistic16(node, x.tensor, float(x.scale))
    _fixed_output(node, 1 / 256, -128)
    return by_table(
        node, x, lambda v: logistic(v, x.scale) if node.is_micro else _real(v, x, _sigmoid, 256, -128)
    )


@operator("TANH", version=3)
def tanh_(node: TfliteNode) -> Any:
    """By fixed-point exponentials; int16 by a table of sigmoids."""
    x = node.input(0)
    if not node.is_codes(x, wide=True):
        return x.tensor.tanh()
    if node.is_wide:
        _fixed_output(node, 1 / 32768, 0)
        return tanh16(node, x.tensor, float(x.scale))
    _fixed_output(node, 1 / 128, 0)
    return by_table(node, x, lambda v: tanh(v, x.scale) if node.is_micro else _real(v, x, np.tanh, 128, 0))


def _sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)))


def _real(steps: Array, x: TfliteValue, function: Callable[[Array], Array], scale: int, zero: int) -> Array:
    """Codes of LiteRT's reference kernels: the function itself, halves away from zero."""
    return clip(nearest(function(float(x.scale) * steps) * scale) + zero, -128, 127)


def _fixed_output(node: TfliteNode, scale: float, zero: int) -> None:
    found = node.out_quantization()
    if float(found[0]) != scale or found[1] != zero:
        raise node.refuse(
            f"the result has scale {float(found[0])} and zero point {found[1]}, not {scale} and {zero}",
            "convert the model again",
        )


@operator("LEAKY_RELU", version=2)
def leaky_relu(node: TfliteNode) -> Any:
    """Another factor below zero."""
    x = node.input(0)
    alpha = np.float32(node.option("Alpha"))
    if not node.is_codes(x, wide=True):
        return (x.tensor < 0).where(x.tensor * float(alpha), x.tensor)
    s_out, zero = node.out_quantization()
    above = multiplier(float(x.scale) / float(s_out))
    below = multiplier(float(x.scale) * float(alpha) / float(s_out))
    if not node.is_micro:
        above, below = multiplier(float(x.scale / s_out)), multiplier(float(x.scale * alpha / s_out))
    if node.is_wide:
        steps = x.tensor.cast(dtypes.int32)
        sides = [two_roundings(node, steps, p, key) for p, key in ((above, "above_"), (below, "below_"))]
        return clipped((steps < 0).where(sides[1], sides[0]), *LIMITS["INT16"], (-(1 << 31), 1 << 31)).cast(
            dtypes.int16
        )
    return by_table(
        node, x, lambda v: np.clip(np.where(v >= 0, scaled(v, above), scaled(v, below)) + zero, -128, 127)
    )


@operator("PRELU", version=1)
def prelu(node: TfliteNode) -> Any:
    """A factor below zero for each channel."""
    x, alpha = node.input(0), node.input(1)
    if not node.is_codes(x, alpha):
        return (x.tensor < 0).where(x.tensor * alpha.tensor.expand(x.tensor.shape), x.tensor)
    s_out, zero = node.out_quantization()
    s_alpha = node.scale_of(alpha)
    above = multiplier(float(x.scale) / float(s_out))
    below = multiplier(float(x.scale) * float(s_alpha) / float(s_out))
    slopes = node.constant(1).astype(np.int64) - alpha.zero
    unique, place = np.unique(slopes, return_inverse=True)
    low, high = x.codes.ends
    v = np.arange(low, high + 1, dtype=np.int64) - x.zero
    rows = np.where(v >= 0, scaled(v, above), scaled(v * unique[:, None], below))
    return by_rows(node, x, np.clip(rows + zero, -128, 127), place.reshape(slopes.shape))


@operator("HARD_SWISH", version=1)
def hard_swish_(node: TfliteNode) -> Any:
    """By 16-bit steps."""
    x = node.input(0)
    if not node.is_codes(x):
        return x.tensor * (x.tensor + 3.0).maximum(0.0).minimum(6.0) * (1 / 6)
    s_out, zero = node.out_quantization()
    return by_table(node, x, lambda v: hard_swish(v, x.scale, s_out, zero))


@operator("GELU", version=2)
def gelu(node: TfliteNode) -> Any:
    """TFLM has none: codes are those nearest to the function itself, as LiteRT's table has them."""
    x = node.input(0)
    if node.is_codes(x):
        s_out, zero = node.out_quantization()
        inner = _gelu_tanh if node.option("Approximate") else _gelu_erf
        return by_table(
            node, x, lambda v: clip(nearest(inner(float(x.scale) * v) / float(s_out)) + zero, -128, 127)
        )
    if node.option("Approximate"):
        return x.tensor.gelu()
    return x.tensor * 0.5 * (1 + (x.tensor * 2**-0.5).erf())


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def _gelu_erf(x: Array) -> Array:
    return np.asarray(x / 2 * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2))))


@operator("QUANTIZE", version=4)
def quantize(node: TfliteNode) -> Any:
    """Numbers to codes, or codes to those of another scale."""
    x = node.input(0)
    kind = node.output.kind
    if kind not in ("INT8", "UINT8", "INT16"):
        raise node.wrong_types({x.record.kind, kind})
    s_out, zero = node.out_quantization()
    limits = LIMITS[kind]
    if x.record.kind == "FLOAT32":
        if x.array is not None:
            return TfliteValue(
                node.output, None, quantized(x.array, s_out, zero, *limits).astype(node.output.numpy)
            )
        return _codes_of(x.tensor, s_out, zero, limits).cast(dtype_of(kind))
    if x.record.kind not in ("INT8", "UINT8", "INT16"):
        raise node.wrong_types({x.record.kind, kind})
    real = float(node.scale_of(x)) / float(s_out)
    if x.record.kind == "INT16":
        low, high = (end - x.zero for end in x.codes.ends)
        steps = x.tensor.cast(dtypes.int32) - x.zero
        found, bounds = requantized(node, steps, np.array(real), low, high, zero, limits, dtype_of(kind))
        return TfliteValue(node.output, found, None, bounds)
    pair = multiplier(real)
    return by_table(node, x, lambda v: np.clip(scaled(v, pair) + zero, *limits))


def _codes_of(x: Tensor, scale: Any, zero: int, limits: tuple[int, int]) -> Tensor:
    """Divided in float32, halves away from zero."""
    from tg2hdl_backend.tinygrad_adapter.division import quotient

    value = quotient(x, Tensor(float(scale), dtype=dtypes.float32))
    # Beyond these the code is clipped.
    reach = float(limits[1] - limits[0] + abs(zero) + 2)
    value = value.maximum(-reach).minimum(reach)
    whole = value.trunc()
    # A sum with a half would be rounded: the number below 0.5 gave 1.
    part = value - whole
    steps = whole.cast(dtypes.int32) + (part >= 0.5).cast(dtypes.int32) - (part <= -0.5).cast(dtypes.int32)
    number = steps + zero
    bound = int(reach) + 1 + abs(zero)
    return clipped(number, *limits, (-bound, bound))


@operator("DEQUANTIZE", version=6)
def dequantize(node: TfliteNode) -> Any:
    """Codes to numbers; float16 constants become float32."""
    x = node.input(0)
    if node.output.kind != "FLOAT32":
        raise node.wrong_types({x.record.kind, node.output.kind})
    if x.record.kind == "FLOAT16":
        return TfliteValue(node.output, None, node.constant(0).astype(np.float32))
    if x.record.kind not in ("INT8", "UINT8", "INT16", "INT4"):
        raise node.wrong_types({x.record.kind, node.output.kind})
    record = x.record
    if x.array is not None:
        spread = [1] * x.array.ndim
        if record.scale.size > 1:
            spread[record.axis] = -1
        scale, zero = (v.reshape(spread) if v.size > 1 else v[0] for v in (record.scale, record.zero))
        numbers = (x.array.astype(np.int64) - zero).astype(np.float32) * scale
        return TfliteValue(node.output, None, np.asarray(numbers, np.float32))
    scale = node.scale_of(x)
    return x.steps().cast(dtypes.float32) * float(scale)


@operator("CAST", version=6)
def cast(node: TfliteNode) -> Any:
    """Numbers in another type."""
    x = node.input(0)
    dtype = dtype_of(node.output.kind)
    if dtype is None or dtype_of(x.record.kind) is None:
        raise node.wrong_types({x.record.kind, node.output.kind})
    return x.tensor.cast(dtype)
