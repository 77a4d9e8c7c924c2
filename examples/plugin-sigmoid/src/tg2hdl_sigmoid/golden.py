"""Meaning of the op: the logistic function at the nearest multiple of 1/256, exact 0 and 1 from 8 on."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import DType

__all__ = ["INDEX_BITS", "LIMIT", "STEPS_PER_UNIT", "evaluate", "result_type", "table"]

STEPS_PER_UNIT = 256
LIMIT = 8
INDEX_BITS = 12  # two's complement index of a step, -2048 to 2047


def result_type(operands: tuple[DType, ...]) -> DType | None:
    """Return fp32 for an fp32 operand, None for any other."""
    return DType.FP32 if operands == (DType.FP32,) else None


def table() -> npt.NDArray[np.float32]:
    """Values by index, taken as an unsigned number: entry i is the step i, or i - 4096 from 2048 on."""
    index = np.arange(1 << INDEX_BITS)
    index = np.where(index >= 1 << (INDEX_BITS - 1), index - (1 << INDEX_BITS), index)
    return (1 / (1 + np.exp(-index / STEPS_PER_UNIT))).astype(np.float32)


def evaluate(
    operands: tuple[npt.NDArray[Any], ...], types: tuple[DType, ...], result: DType
) -> npt.NDArray[np.float32]:
    """Golden evaluation: ties of the rounding go away from zero, NaN gives the canonical NaN."""
    (x,) = operands
    x = np.asarray(x, dtype=np.float32)
    inside = np.abs(x) < LIMIT
    magnitude = np.floor(np.abs(np.where(inside, x, 0)).astype(np.float64) * STEPS_PER_UNIT + 0.5)
    top = (1 << (INDEX_BITS - 1)) - 1
    index = np.where(np.signbit(x), -1, 1) * np.minimum(magnitude, top).astype(np.int64)
    value = np.where(inside, table()[index], np.where(np.signbit(x), np.float32(0), np.float32(1)))
    return np.where(np.isnan(x), np.float32(np.nan), value).astype(np.float32)
