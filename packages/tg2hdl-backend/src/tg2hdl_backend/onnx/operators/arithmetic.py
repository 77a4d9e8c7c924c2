"""Arithmetic that operators share: division as IEEE has it, rounding into an integer type, exact products of half."""

from __future__ import annotations

from typing import Any

from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.tensors import tensor_of
from tg2hdl_backend.tinygrad_adapter.division import quotient

__all__ = ["constant", "divide", "scalar", "to_code", "wide"]


def divide(a: Tensor, b: Tensor | float) -> Tensor:
    """Quotient rounded once; tinygrad's own ``/`` rounds the reciprocal first.

    Parameters
    ----------
    a : Tensor
        Floats that broadcast.
    b : Tensor or float
        Floats that broadcast.
    """
    if not isinstance(b, Tensor):
        if abs(b).hex().startswith("0x1.0000000000000p"):
            return a / b
        b = a.full_like(b)
    return quotient(a, b)


def to_code(x: Tensor, zero_point: Tensor | int, dtype: Any) -> Tensor:
    """Round half to even, add the zero point, saturate, and convert to an integer type; NaN becomes the smallest.

    Parameters
    ----------
    x : Tensor
    zero_point : Tensor or int
        In units of the result.
    dtype
        Integer type of tinygrad.
    """
    rounded = x.round()
    if isinstance(zero_point, Tensor):
        zero_point = zero_point.cast(rounded.dtype)
    if not isinstance(zero_point, int) or zero_point:
        rounded = rounded + zero_point
    saturated: Tensor = (rounded > dtype.min).where(rounded.minimum(dtype.max), dtype.min)
    return saturated.cast(dtype)


def scalar(node: OnnxNode, position: int, value: Tensor | None, default: Any = 0) -> Any:
    """Input `position` as a number where it is a known scalar; otherwise the tensor.

    Parameters
    ----------
    node : OnnxNode
    position : int
        Of the input.
    value : Tensor or None
        The input.
    default : default 0
        For an absent input.
    """
    if value is None:
        return default
    known = node.known(position)
    return known.reshape(()).item() if known is not None and known.size == 1 else value


def wide(x: Tensor) -> Tensor:
    """Half and bfloat16 as float32, in which their products are exact."""
    return x.cast(dtypes.float32) if x.dtype in (dtypes.float16, dtypes.bfloat16) else x


def constant(node: OnnxNode, array: Any) -> Tensor:
    """Tensor of a table that is made from attributes.

    Parameters
    ----------
    node : OnnxNode
    array
        Contents.
    """
    return tensor_of(array, node.where)
