"""Golden evaluation of the Microscaling ops, in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_formats.mx_elements import E2M1, INT8, NAN_SCALE, Element, element_values
from tg2hdl_ir import DType

__all__ = ["dot_e2m1", "dot_int8", "dot_type", "scale_e2m1", "scale_int8", "scale_type"]


def dot_type(operands: tuple[DType, ...]) -> DType | None:
    """Two words give an integer."""
    return DType.INT32 if operands == (DType.UINT32, DType.UINT32) else None


def scale_type(operands: tuple[DType, ...]) -> DType | None:
    """An integer and two scales give FP32."""
    return DType.FP32 if operands == (DType.INT32, DType.UINT8, DType.UINT8) else None


def _dot(operands: tuple[Any, ...], element: Element) -> npt.NDArray[np.int32]:
    steps = np.ldexp(element_values(element), -element.unit).astype(np.int64)
    total, mask = np.zeros(np.broadcast(*operands).shape, np.int64), (1 << element.width) - 1
    for low in range(0, 32, element.width):
        x, y = (steps[np.asarray(word) >> np.uint32(low) & np.uint32(mask)] for word in operands)
        total = total + x * y
    return total.astype(np.int32)


def _scale(operands: tuple[Any, ...], element: Element) -> npt.NDArray[np.float32]:
    total, *scales = (np.asarray(operand).astype(np.int64) for operand in operands)
    exact = np.ldexp(total.astype(np.float64), scales[0] + scales[1] - 254 + 2 * element.unit)
    nan = (scales[0] == NAN_SCALE) | (scales[1] == NAN_SCALE)
    with np.errstate(over="ignore"):
        return np.where(nan, np.nan, exact).astype(np.float32)


def dot_e2m1(operands: tuple[Any, ...], types: tuple[DType, ...], result: DType) -> npt.NDArray[np.int32]:
    """Sum of the products of eight E2M1 elements in each word, in quarters."""
    return _dot(operands, E2M1)


def dot_int8(operands: tuple[Any, ...], types: tuple[DType, ...], result: DType) -> npt.NDArray[np.int32]:
    """Sum of the products of four INT8 elements in each word, in units of 2^-12."""
    return _dot(operands, INT8)


def scale_e2m1(operands: tuple[Any, ...], types: tuple[DType, ...], result: DType) -> npt.NDArray[np.float32]:
    """A sum of `dot_e2m1` times both scales, rounded once."""
    return _scale(operands, E2M1)


def scale_int8(operands: tuple[Any, ...], types: tuple[DType, ...], result: DType) -> npt.NDArray[np.float32]:
    """A sum of `dot_int8` times both scales, rounded once."""
    return _scale(operands, INT8)
