"""Averages and softmax of codes, which ONNX Runtime's quantizer writes in the form QOperator."""

from __future__ import annotations

from typing import Any

import numpy as np
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.operators.arithmetic import constant, divide, scalar, to_code
from tg2hdl_backend.onnx.operators.convolution import average_of_windows
from tg2hdl_backend.onnx.operators.declared import declared_codes, known_quantizer
from tg2hdl_backend.onnx.tensors import sizes_of

__all__ = ["qlinear_average_pool", "qlinear_softmax"]


def _from_table(node: OnnxNode, x: Tensor) -> Tensor:
    """The values of codes, each rounded by itself: a factor would be moved after the sums."""
    scale, zero = node.known(1), node.known(2) if node.known_inputs[2] else np.zeros((), np.int64)
    if scale is None or zero is None:
        raise node.unsupported("a scale that depends on data", "make scales and zero points initializers")
    codes = np.arange(256).astype(np.uint8).view(np.int8 if x.dtype == dtypes.int8 else np.uint8)
    shifted = (codes.astype(np.int64) - zero.reshape(()).astype(np.int64)).astype(np.float32)
    return constant(node, shifted * scale.reshape(()))[x.bitcast(dtypes.uint8).cast(dtypes.int32)]


def qlinear_average_pool(node: OnnxNode, x: Tensor, *given: Any) -> Tensor:
    """Mean of each window; the zero point is added before the rounding, as ONNX Runtime does.

    Parameters
    ----------
    node, x, *given
        The node and its inputs, as ONNX Runtime defines `QLinearAveragePool`.
    """
    y_scale, *y_zero = given[2:]
    zero = y_zero[0] if y_zero else None
    last = node.attribute("channels_last", 0)
    x = x.permute(0, x.ndim - 1, *range(1, x.ndim - 1)) if last else x
    mean = average_of_windows(node, _from_table(node, x))
    moved = divide(mean, scalar(node, 3, y_scale))
    offset = scalar(node, 4, zero)
    moved = moved + (offset.cast(dtypes.float32) if isinstance(offset, Tensor) else offset)
    steps = known_quantizer(node, moved, 1.0, 0, x.dtype)
    result = declared_codes(node, to_code(moved, 0, x.dtype), moved, steps)
    return result.permute(0, *range(2, x.ndim), 1) if last else result


def qlinear_softmax(node: OnnxNode, x: Tensor, *given: Any) -> Tensor:
    """Softmax with powers from a table of 256, shifted so that the largest code has the last entry.

    Parameters
    ----------
    node, x, *given
        The node and its inputs, as ONNX Runtime defines `QLinearSoftmax`.
    """
    y_zero = given[3] if len(given) > 3 else None
    x_scale, y_scale = node.known(1), node.known(3)
    if x_scale is None or y_scale is None:
        raise node.unsupported("a scale that depends on data", "make scales and zero points initializers")
    new = node.attribute("opset", 13) >= 13
    axis = node.attribute("axis", -1 if new else 1) % x.ndim
    sizes = sizes_of(x)
    rows = x.transpose(axis, -1) if new else x.reshape(int(np.prod(sizes[:axis], dtype=np.int64)), -1)
    step = float(x_scale.reshape(()).item())
    # The powers are as large as their sum in float32 permits, so that few of them are rounded to zero.
    headroom = np.log(np.finfo(np.float32).max / np.float32(rows.shape[-1])) - 5
    powers = np.exp((np.arange(256) - 255 + max(0.0, headroom) / step) * step).astype(np.float32)
    codes = rows.cast(dtypes.int32)
    places = codes + (255 - codes.max(-1, keepdim=True))
    terms = constant(node, powers)[places]
    scaled = terms * float(np.floor(np.float32(1) / y_scale.reshape(()).astype(np.float32)))
    result = to_code(divide(scaled, terms.sum(-1, keepdim=True)), scalar(node, 4, y_zero), x.dtype)
    return result.transpose(axis, -1) if new else result.reshape(sizes)
