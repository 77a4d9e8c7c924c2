"""Operators of QONNX, which Brevitas and QKeras export: numbers that are rounded to codes of any width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.operators.arithmetic import constant, divide, scalar
from tg2hdl_backend.tinygrad_adapter.quantizers import declare_codes, declare_values
from tg2hdl_ir.tensors import Quantizer

__all__ = ["bipolar_quant", "quant", "trunc", "trunc_2"]

_WIDEST = 16
"""Most bits of codes that are integers in hardware; wider ones stay float numbers."""

_ROUNDINGS: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "ROUND": ("half_even", lambda x: x.round()),
    "HALF_EVEN": ("half_even", lambda x: x.round()),
    "FLOOR": ("floor", lambda x: x.floor()),
    "CEIL": ("ceil", lambda x: x.ceil()),
    "ROUND_TO_ZERO": ("down", lambda x: x.trunc()),
    "DOWN": ("down", lambda x: x.trunc()),
    "UP": ("up", lambda x: _signed(x, x.abs().ceil())),
    "HALF_UP": ("half_away", lambda x: _signed(x, (x.abs() + 0.5).floor())),
    "HALF_DOWN": ("half_down", lambda x: _signed(x, (x.abs() - 0.5).ceil())),
}
"""Name of the registered rounding, and the same of Tensors, by QONNX's name."""

_SHIFTS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "ROUND": lambda x, bits: (
        (x + (1 << bits >> 1) - (1 if bits else 0) + ((x >> bits) & min(bits, 1))) >> bits
    ),
    "FLOOR": lambda x, bits: x >> bits,
    "CEIL": lambda x, bits: (x + (1 << bits) - 1) >> bits,
    "DOWN": lambda x, bits: _signed(x, x.abs() >> bits),
    "UP": lambda x, bits: _signed(x, (x.abs() + (1 << bits) - 1) >> bits),
    "HALF_UP": lambda x, bits: _signed(x, (x.abs() + (1 << bits >> 1)) >> bits),
    "HALF_DOWN": lambda x, bits: _signed(x, (x.abs() + max((1 << bits >> 1) - 1, 0)) >> bits),
}
"""Quotients of integers and powers of two, rounded."""
_SHIFTS |= {"HALF_EVEN": _SHIFTS["ROUND"], "ROUND_TO_ZERO": _SHIFTS["DOWN"]}


def _signed(x: Tensor, magnitude: Tensor) -> Tensor:
    """A magnitude with the sign of `x`."""
    result: Tensor = (x < 0).where(-magnitude, magnitude)
    return result


def _sign(x: Tensor) -> Tensor:
    """1 or -1, as int8; zero is positive."""
    result: Tensor = (x >= 0).cast(dtypes.int8) * 2 - 1
    return result


def _rounding(node: OnnxNode, default: str) -> str:
    mode = str(node.attribute("rounding_mode", default)).upper()
    if mode not in _ROUNDINGS:
        raise node.unsupported(f"rounding mode {mode}", "use one of: " + ", ".join(_ROUNDINGS))
    return mode


def _whole(node: OnnxNode, bits: Any) -> int:
    """A number of bits."""
    found = float(np.asarray(bits).reshape(-1)[0]) if np.size(bits) == 1 else 0.0
    if found != int(found) or not 1 <= found <= 64:
        raise node.unsupported(
            f"codes of {found:g} bits" if np.size(bits) == 1 else "a width for each channel",
            "use one whole width of 1 to 64 bits",
        )
    return int(found)


def _limits(node: OnnxNode, bits: int) -> tuple[int, int]:
    """Smallest and largest code."""
    count, narrow = 1 << bits, node.attribute("narrow", 0)
    return (narrow - count // 2, count // 2 - 1) if node.attribute("signed", 1) else (0, count - 1 - narrow)


def _type(low: int, high: int) -> Any:
    if low >= 0:
        return dtypes.uint8 if high < 1 << 8 else dtypes.uint16
    return dtypes.int8 if low >= -(1 << 7) else dtypes.int16


def quant(node: OnnxNode, x: Tensor, scale: Tensor, zero_point: Tensor, bits: Any) -> Tensor:
    """``(round(clip(x / scale + zero_point)) - zero_point) * scale``, one scale or one per channel.

    Parameters
    ----------
    node, x, scale, zero_point, bits
        The node and its inputs, as the domain qonnx.custom_op.general defines `Quant` and `IntQuant`.
    """
    width, mode = _whole(node, bits), _rounding(node, "ROUND")
    low, high = _limits(node, width)
    factor, zero = scalar(node, 1, scale), scalar(node, 2, zero_point)
    steps = divide(x, factor) + zero
    if width == 1 and node.attribute("signed", 1):
        low, high, mode = -1, 1, ""  # As qonnx, only the sign counts: there is no zero.
        rounded = _sign(steps)
    else:
        rounded = _ROUNDINGS[mode][1](steps.clamp(low, high))
    if width > _WIDEST:
        node.stays_float(f"codes of {width} bits")
        return _values(node, rounded, zero, factor, None)
    codes = rounded.cast(_type(low, high))
    quantizer = _known(node, node.known(1), node.known(2), low, high)
    if quantizer is not None and mode in _ROUNDINGS:
        named = _ROUNDINGS[mode][0]
        # A zero point that is not zero is added before the rounding: ties of odd ones go the other way.
        first = named != "half_even" or bool(np.any(quantizer.zero))
        declare_codes(codes, x, replace(quantizer, rounding=named, zero_first=first), node.name)
    return _values(node, codes, zero, factor, quantizer)


def bipolar_quant(node: OnnxNode, x: Tensor, scale: Tensor) -> Tensor:
    """The scale with the sign of `x`; zero is positive.

    Parameters
    ----------
    node, x, scale
        The node and its inputs, as the domain qonnx.custom_op.general defines `BipolarQuant`.
    """
    codes = _sign(x)
    quantizer = _known(node, node.known(1), np.zeros(()), -1, 1)
    return _values(node, codes, 0, scalar(node, 1, scale), quantizer)


def trunc(
    node: OnnxNode, x: Tensor, scale: Tensor, zero_point: Tensor, bits: Any, result_bits: Any
) -> Tensor:
    """The codes of `x`, divided by ``2 ** (bits - result_bits)`` and rounded; they keep the scale.

    Parameters
    ----------
    node, x, scale, zero_point, bits, result_bits
        The node and its inputs, as the domain qonnx.custom_op.general defines `Trunc`.
    """
    shift = _whole(node, bits) - _whole(node, result_bits)
    codes = _shifted(node, x, scale, zero_point, shift)
    quantizer = _known(node, node.known(1), node.known(2), dtypes.int32.min, dtypes.int32.max)
    return _values(node, codes, scalar(node, 2, zero_point), scalar(node, 1, scale), quantizer)


def trunc_2(
    node: OnnxNode,
    x: Tensor,
    scale: Any,
    zero_point: Tensor,
    bits: Any,
    result_scale: Any,
    result_bits: Any,
) -> Tensor:
    """The codes of `x` at a coarser scale, a power of two of the other, and in fewer bits.

    Parameters
    ----------
    node, x, scale, zero_point, bits, result_scale, result_bits
        The node and its inputs, as the domain qonnx.custom_op.general defines `Trunc`.
    """
    _whole(node, bits)
    ratios = np.rint(np.log2(np.asarray(result_scale, np.float64) / np.asarray(scale, np.float64)))
    if not np.all(ratios == ratios.flat[0]):
        raise node.unsupported("a ratio of scales for each channel", "use one ratio")
    shift = int(ratios.flat[0])
    low, high = _limits(node, _whole(node, result_bits))
    codes = _shifted(node, x, constant(node, scale), zero_point, shift).clamp(low, high)
    zero = scalar(node, 2, zero_point)
    known = node.known(2)
    quantizer = _known(node, result_scale, None if known is None else known / 2.0**shift, low, high)
    factor = result_scale.item() if result_scale.size == 1 else constant(node, result_scale)
    return _values(node, codes, zero / 2.0**shift, factor, quantizer)


def _shifted(node: OnnxNode, x: Tensor, scale: Tensor, zero_point: Tensor, shift: int) -> Tensor:
    """Codes of `x` without their last bits, rounded, as int32."""
    if not 0 <= shift < 24:
        raise node.unsupported(
            f"a shift by {shift} bits", "give fewer bits than the input has, by less than 24"
        )
    mode = _rounding(node, "FLOOR")
    steps = divide(x, scalar(node, 1, scale)) + scalar(node, 2, zero_point)
    codes = steps.round().cast(dtypes.int32)
    quantizer = _known(node, node.known(1), node.known(2), dtypes.int32.min, dtypes.int32.max)
    if quantizer is not None:
        declare_codes(codes, x, quantizer, f"{node.name}.codes")
    return _SHIFTS[mode](codes, shift)


def _known(node: OnnxNode, scale: Any, zero: Any, low: int, high: int) -> Quantizer | None:
    """The quantizer of codes; None where it is not known or codes are not integers."""
    if scale is None or zero is None:
        node.stays_float(f"its {'scale' if scale is None else 'zero point'} is computed from inputs")
        return None
    if np.any(scale <= 0):
        node.stays_float("its scale is not positive")
        return None
    if np.any(zero != np.rint(zero)):
        node.stays_float("its zero point is not an integer")
        return None
    return Quantizer(_spread(scale, np.float32), _spread(zero, np.int64), low, high)


def _values(node: OnnxNode, codes: Tensor, zero: Any, factor: Any, quantizer: Quantizer | None) -> Tensor:
    """``(codes - zero) * factor``, declared where the quantizer is known."""
    values: Tensor = (codes.cast(dtypes.float32) - zero) * factor
    return values if quantizer is None else declare_values(values, codes, quantizer, node.name)


def _spread(array: npt.NDArray[Any], dtype: Any) -> npt.NDArray[Any]:
    return np.asarray(array.reshape(()) if array.size == 1 else array, dtype)
