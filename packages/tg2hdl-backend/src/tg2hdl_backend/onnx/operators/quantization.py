"""Quantization as ONNX Runtime computes it: one rounding, half to even, before the zero point is added."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.operators.arithmetic import constant, divide, scalar, to_code
from tg2hdl_backend.onnx.operators.convolution import conv
from tg2hdl_backend.onnx.operators.declared import declared_codes, declared_values, known_quantizer
from tg2hdl_backend.onnx.tensors import to_dtype
from tg2hdl_ir.tensors import Quantizer

__all__ = [
    "conv_integer",
    "dequantize_linear",
    "dynamic_quantize_linear",
    "matmul_integer",
    "qlinear_conv",
    "qlinear_matmul",
    "quantize_linear",
]


def _spread(node: OnnxNode, x: Tensor, value: Any) -> Any:
    """Scale or zero point in the shape of `x`: one number, one per channel, or one per block."""
    if not isinstance(value, Tensor) or value.numel() == 1:
        return value.reshape(()) if isinstance(value, Tensor) else value
    axis = node.attribute("axis", 1) % x.ndim
    block = node.attribute("block_size", 0)
    if block:
        return value.repeat_interleave(block, axis).shrink(tuple((0, s) for s in x.shape))
    if value.ndim != 1 or value.shape[0] != x.shape[axis]:
        raise node.unsupported(f"a scale of shape {value.shape} for axis {axis} of shape {x.shape}")
    return value.reshape([-1 if n == axis else 1 for n in range(x.ndim)])


def quantize_linear(node: OnnxNode, x: Tensor, scale: Tensor, zero_point: Tensor | None = None) -> Tensor:
    """``saturate(round(x / scale) + zero_point)``; to FP8 the quotient is converted.

    Parameters
    ----------
    node, x, scale, zero_point
        The node and its inputs, as ONNX defines `QuantizeLinear`.
    """
    if node.attribute("precision"):
        x = x.cast(to_dtype(node.attribute("precision")))
    out = dtypes.uint8
    if zero_point is not None:
        out = zero_point.dtype
    elif node.attribute("output_dtype"):
        out = to_dtype(node.attribute("output_dtype"), node.where)
    x = x.cast(dtypes.float32) if not dtypes.is_float(x.dtype) else x
    quotient = divide(x, _float_scale(_spread(node, x, scalar(node, 1, scale)), x))
    if dtypes.is_float(out):
        limit = {"float8_e4m3": 448.0, "float8_e5m2": 57344.0}[out.name]
        if not node.attribute("saturate", 1):
            raise node.unsupported("FP8 without saturation", "export with saturate=1")
        node.stays_float("codes in float8")
        return quotient.clamp(-limit, limit).cast(out)
    codes = to_code(quotient, _spread(node, x, scalar(node, 2, zero_point)), out)
    zero = 0 if zero_point is None else node.known(2)
    return declared_codes(node, codes, x, known_quantizer(node, x, node.known(1), zero, out))


def _float_scale(scale: Any, x: Tensor) -> Any:
    return scale.cast(x.dtype) if isinstance(scale, Tensor) else scale


def dequantize_linear(node: OnnxNode, x: Tensor, scale: Tensor, zero_point: Tensor | None = None) -> Tensor:
    """``(x - zero_point) * scale``.

    Parameters
    ----------
    node, x, scale, zero_point
        The node and its inputs, as ONNX defines `DequantizeLinear`.
    """
    out = to_dtype(node.attribute("output_dtype")) if node.attribute("output_dtype") else scale.dtype
    if dtypes.is_float(x.dtype):
        value = x.cast(dtypes.float32)
        if zero_point is not None:
            value = value - _spread(node, x, zero_point).cast(dtypes.float32)
    else:
        value = _shifted(x, _spread(node, x, scalar(node, 2, zero_point))).cast(dtypes.float32)
    factor = _spread(node, x, scalar(node, 1, scale))
    result = (value * (factor.cast(dtypes.float32) if isinstance(factor, Tensor) else factor)).cast(out)
    if dtypes.is_float(x.dtype):
        node.stays_float("codes in float8")
        return result
    zero = 0 if zero_point is None else node.known(2)
    return declared_values(node, result, x, known_quantizer(node, x, node.known(1), zero, x.dtype))


def dynamic_quantize_linear(node: OnnxNode, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Scale and zero point from the range of the data, which includes zero.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `DynamicQuantizeLinear`.
    """
    low, high = x.min().minimum(0), x.max().maximum(0)
    span = high - low
    # ONNX Runtime's scale of data that are all zero.
    scale = (span == 0).where(1.0, divide(span, 255.0))
    zero_point = divide(-low, scale).round().clamp(0, 255)
    codes = divide(x, scale).round() + zero_point
    return codes.clamp(0, 255).cast(dtypes.uint8), scale, zero_point.cast(dtypes.uint8)


def _shifted(x: Tensor, zero_point: Any) -> Tensor:
    """Integer minus its zero point, exactly."""
    value = x.cast(dtypes.int32)
    if isinstance(zero_point, Tensor):
        return value - zero_point.cast(dtypes.int32)
    return value - int(zero_point) if zero_point else value


def _columns(zero_point: Any) -> Any:
    """Zero points of the rows of a left operand."""
    return zero_point.unsqueeze(-1) if isinstance(zero_point, Tensor) and zero_point.ndim == 1 else zero_point


def matmul_integer(
    node: OnnxNode, a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    """Product of integers minus their zero points, in int32.

    Parameters
    ----------
    node, a, b, a_zero, b_zero
        The node and its inputs, as ONNX defines `MatMulInteger`.
    """
    left = _shifted(a, _columns(scalar(node, 2, a_zero)))
    return left.matmul(_shifted(b, scalar(node, 3, b_zero)), dtype=dtypes.int32)


def _per_filter(zero_point: Any, rank: int) -> Any:
    return zero_point.reshape(-1, *[1] * (rank - 1)) if isinstance(zero_point, Tensor) else zero_point


def conv_integer(
    node: OnnxNode, x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None
) -> Tensor:
    """Convolution of integers minus their zero points, in int32; padding stands for the zero point.

    Parameters
    ----------
    node, x, w, x_zero, w_zero
        The node and its inputs, as ONNX defines `ConvInteger`.
    """
    shifted = _shifted(x, scalar(node, 2, x_zero))
    return conv(node, shifted, _shifted(w, _per_filter(scalar(node, 3, w_zero), w.ndim)))


def _requantized(
    node: OnnxNode, total: Tensor, factor: Factor, position: int, zero_point: Tensor | None
) -> Tensor:
    """``round(float(total) * factor) + zero_point``, saturated."""
    dtype = dtypes.uint8 if zero_point is None else zero_point.dtype
    zero = scalar(node, position, zero_point)
    zero = zero.reshape(()) if isinstance(zero, Tensor) and zero.numel() == 1 else zero
    value = total.cast(dtypes.float32) * factor.tensor
    declared_values(node, value, total, factor.quantizer)
    known = 0 if zero_point is None else node.known(position)
    steps = known_quantizer(node, total, 1.0, known, dtype)
    return declared_codes(node, to_code(value, zero, dtype), value, steps)


class Factor(NamedTuple):
    """The factor of a sum of products: as an operand, and as a scale where it is known."""

    tensor: Any
    quantizer: Quantizer | None


def _factor(
    node: OnnxNode, positions: tuple[int, int, int], tensors: tuple[Tensor, ...], shape: Any
) -> Factor:
    """``x_scale * w_scale / y_scale`` in float32, computed here when all are known."""
    known = [node.known(p) for p in positions]
    if all(k is not None for k in known):
        x, w, y = (np.asarray(k, np.float32) for k in known)
        factor = (x * w) / y
        one = factor.size == 1
        factor = factor.reshape(()) if one else factor.reshape(-1).reshape(shape)
        limits = (dtypes.int32.min, dtypes.int32.max)
        quantizer = Quantizer(factor, np.zeros((), np.int64), *limits) if np.all(factor > 0) else None
        operand = float(factor) if one else constant(node, factor.reshape(-1)).reshape(shape)
        return Factor(operand, quantizer)
    x_scale, w_scale, y_scale = (t.reshape(()) if t.numel() == 1 else t.reshape(shape) for t in tensors)
    return Factor(divide(x_scale * w_scale, y_scale), None)


def qlinear_matmul(
    node: OnnxNode,
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
) -> Tensor:
    """Product of codes, requantized.

    Parameters
    ----------
    node, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero
        The node and its inputs, as ONNX defines `QLinearMatMul`.
    """
    if a_scale.numel() > 1:
        raise node.unsupported("a scale for each row", "use one scale for the left operand")
    left = _shifted(a, _columns(scalar(node, 2, a_zero)))
    total = left.matmul(_shifted(b, scalar(node, 5, b_zero)), dtype=dtypes.int32)
    factor = _factor(node, (1, 4, 6), (a_scale, b_scale, y_scale), (-1,))
    return _requantized(node, total, factor, 7, y_zero).cast(y_zero.dtype)


def qlinear_conv(
    node: OnnxNode,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    """Convolution of codes with an int32 bias, requantized.

    Parameters
    ----------
    node, x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias
        The node and its inputs, as ONNX defines `QLinearConv`.
    """
    shifted = _shifted(x, scalar(node, 2, x_zero))
    total = conv(node, shifted, _shifted(w, _per_filter(scalar(node, 5, w_zero), w.ndim)), bias)
    shape = (1, -1, *[1] * (x.ndim - 2))
    factor = _factor(node, (1, 4, 6), (x_scale, w_scale, y_scale), shape)
    return _requantized(node, total, factor, 7, y_zero)
