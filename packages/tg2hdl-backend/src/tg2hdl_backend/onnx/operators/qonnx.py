"""Operators of QONNX, which Brevitas and QKeras export: numbers that are rounded to codes of any width."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.operators.arithmetic import divide, scalar
from tg2hdl_backend.tinygrad_adapter.quantizers import declare_codes, declare_values
from tg2hdl_ir.tensors import Quantizer

__all__ = ["bipolar_quant", "quant"]

_WIDEST = 16


def _limits(node: OnnxNode, bits: float) -> tuple[int, int]:
    """Smallest and largest code."""
    if bits != int(bits) or not 1 <= bits <= _WIDEST:
        raise node.unsupported(f"codes of {bits:g} bits", f"use whole widths of 1 to {_WIDEST} bits")
    count, narrow = 1 << int(bits), node.attribute("narrow", 0)
    if not node.attribute("signed", 1):
        return 0, count - 1 - narrow
    if count == 2:
        raise node.unsupported("signed codes of one bit", "use BipolarQuant")
    return narrow - count // 2, count // 2 - 1


def _type(low: int, high: int) -> Any:
    if low >= 0:
        return dtypes.uint8 if high < 1 << 8 else dtypes.uint16
    return dtypes.int8 if low >= -(1 << 7) else dtypes.int16


def _codes(node: OnnxNode, steps: Tensor) -> Tensor:
    mode = str(node.attribute("rounding_mode", "ROUND")).upper()
    rounded = {"ROUND": steps.round, "FLOOR": steps.floor, "CEIL": steps.ceil, "ROUND_TO_ZERO": steps.trunc}
    if mode not in rounded:
        raise node.unsupported(f"rounding mode {mode}", "use one of: " + ", ".join(rounded))
    result: Tensor = rounded[mode]()
    return result


def quant(node: OnnxNode, x: Tensor, scale: Tensor, zero_point: Tensor, bits: Any) -> Tensor:
    """``(round(clip(x / scale + zero_point)) - zero_point) * scale``, one scale or one per channel."""
    low, high = _limits(node, float(np.asarray(bits).reshape(())))
    factor, zero = scalar(node, 1, scale), scalar(node, 2, zero_point)
    steps = (divide(x, factor) + zero).clamp(low, high)
    codes = _codes(node, steps).cast(_type(low, high))
    values: Tensor = (codes.cast(dtypes.float32) - zero) * factor
    steps_known, zero_known = node.known(1), node.known(2)
    exact = str(node.attribute("rounding_mode", "ROUND")).upper() == "ROUND"
    if not exact or steps_known is None or zero_known is None:
        return values
    if np.any(steps_known <= 0) or np.any(zero_known != np.rint(zero_known)):
        return values
    quantizer = Quantizer(_spread(steps_known, np.float32), _spread(zero_known, np.int64), low, high)
    declare_codes(codes, x, quantizer, node.name)
    return declare_values(values, codes, quantizer, node.name)


def _spread(array: npt.NDArray[Any], dtype: Any) -> npt.NDArray[Any]:
    return np.asarray(array.reshape(()) if array.size == 1 else array, dtype)


def bipolar_quant(node: OnnxNode, x: Tensor, scale: Tensor) -> Tensor:
    """The scale with the sign of `x`; zero is positive."""
    return (x >= 0).where(scale, -scale)
