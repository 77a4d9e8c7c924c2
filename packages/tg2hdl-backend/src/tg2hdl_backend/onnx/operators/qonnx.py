"""Operators of QONNX, which Brevitas and QKeras export: numbers that are rounded to codes of any width."""

from __future__ import annotations

from typing import Any

import numpy as np
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
    return rounded[mode]()


def quant(node: OnnxNode, x: Tensor, scale: Tensor, zero_point: Tensor, bits: Any) -> Tensor:
    """``(round(clip(x / scale + zero_point)) - zero_point) * scale``, one scale or one per channel."""
    low, high = _limits(node, float(np.asarray(bits).reshape(())))
    factor, zero = scalar(node, 1, scale), scalar(node, 2, zero_point)
    steps = (divide(x, factor) + zero).clamp(low, high)
    codes = _codes(node, steps).cast(_type(low, high))
    values = (codes.cast(dtypes.float32) - zero) * factor
    known = node.known(1), node.known(2)
    exact = str(node.attribute("rounding_mode", "ROUND")).upper() == "ROUND"
    if not exact or known[0] is None or known[1] is None or np.any(known[1] != np.rint(known[1])):
        return values
    arrays = [np.asarray(k).reshape(()) if np.size(k) == 1 else np.asarray(k) for k in known]
    if np.any(arrays[0] <= 0):
        return values
    quantizer = Quantizer(arrays[0].astype(np.float32), arrays[1].astype(np.int64), low, high)
    declare_codes(codes, x, quantizer, node.name)
    return declare_values(values, codes, quantizer, node.name)


def bipolar_quant(node: OnnxNode, x: Tensor, scale: Tensor) -> Tensor:
    """The scale with the sign of `x`; zero is positive."""
    return (x >= 0).where(scale, -scale)
