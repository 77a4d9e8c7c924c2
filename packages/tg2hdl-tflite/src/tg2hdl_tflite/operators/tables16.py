"""Functions of int16 codes: tables with interpolation between their entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_tflite.arithmetic import multiplier
from tg2hdl_tflite.arithmetic16 import EXPONENTIALS, RECIPROCALS, SIGMOIDS, table_argument
from tg2hdl_tflite.node import TfliteNode
from tg2hdl_tflite.requantize import clipped, lookup, two_roundings
from tg2hdl_tflite.value import LIMITS, TfliteValue

__all__ = ["logistic16", "softmax16", "tanh16"]

_INT16 = LIMITS["INT16"]
_MOST_CODES = 1 << 16


def logistic16(node: TfliteNode, x: Tensor, scale: float) -> Tensor:
    """Sigmoid of int16 codes of a scale, in units of 2^-15.

    Parameters
    ----------
    node : TfliteNode
        Owner of the tables.
    x : Tensor
        Codes of zero point 0.
    scale : float
        Of a step.

    Raises
    ------
    UnsupportedError
        For a scale whose argument needs more than 32 bits.
    """
    argument, value = _sigmoid(node, x, scale, 9, 0x7FFF << 10, "")
    number = (argument < 0).where((1 << 25) - value + (1 << 9) - 1, value + (1 << 9))
    return (number >> 10).cast(dtypes.int16)


def tanh16(node: TfliteNode, x: Tensor, scale: float, key: str = "") -> Tensor:
    """``2 sigmoid(2 x) - 1`` of int16 codes of a scale, in units of 2^-15.

    Parameters
    ----------
    node : TfliteNode
        Owner of the tables.
    x : Tensor
        Codes of zero point 0.
    scale : float
        Of a step.
    key : str
        Begins the names of the tables, where an operator has several.

    Raises
    ------
    UnsupportedError
        For a scale whose argument needs more than 32 bits.
    """
    argument, value = _sigmoid(node, x, scale, 8, 0xFFFF << 8, key)
    number = (argument < 0).where((1 << 23) - value + (1 << 7) - 1, value - (1 << 23) + (1 << 7))
    return (number >> 8).cast(dtypes.int16)


def _sigmoid(
    node: TfliteNode, x: Tensor, scale: float, bits: int, last: int, key: str
) -> tuple[Tensor, Tensor]:
    """Arguments in steps of 1/12288, and the sigmoid of their size with `bits` bits between entries."""
    factor, shift = table_argument(scale)
    if factor >= _MOST_CODES:
        raise node.refuse(
            f"codes of scale {scale}", "quantize the model again: its argument needs more than 32 bits"
        )
    argument = (x.cast(dtypes.int32) * factor + ((1 << shift) >> 1)) >> shift
    argument = argument.contiguous()
    size = (argument < 0).where(-argument, argument)
    place, part = size >> bits, size & ((1 << bits) - 1)
    inner = clipped(place, 0, 254, (0, 1 << 22))
    low = lookup(node, inner, SIGMOIDS[:-1], dtypes.int32, f"{key}sigmoids")
    rise = lookup(node, inner, np.diff(SIGMOIDS), dtypes.int32, f"{key}rises")
    return argument, (place < 255).where((low << bits) + part * rise, last)


def softmax16(node: TfliteNode, x: TfliteValue, beta: float) -> Any:
    """Along the last axis: a table of exponentials, and one of reciprocals for each row.

    Parameters
    ----------
    node : TfliteNode
        Owner of the tables.
    x : TfliteValue
        Codes of int16; rows along the last axis.
    beta : float
        Factor of the exponent.

    Raises
    ------
    UnsupportedError
        For a row so long that its sum needs more than 32 bits.
    """
    if x.record.shape[-1] >= _MOST_CODES:
        raise node.refuse(
            f"a row of {x.record.shape[-1]} codes", f"give rows of fewer than {_MOST_CODES} codes"
        )
    pair = multiplier(float(x.scale) * float(np.float32(beta)) / (10 / 65535))
    codes = x.tensor.cast(dtypes.int32)
    difference = two_roundings(node, codes - codes.max(-1, keepdim=True), pair)
    index = clipped(difference + 32767, *_INT16, (-(1 << 31), 32767)).cast(dtypes.int32).contiguous()
    powers = _between(node, index, EXPONENTIALS, "exponentials").contiguous()
    total = powers.sum(-1, keepdim=True).contiguous()
    bits = sum(((total >= 1 << n).cast(dtypes.int32) for n in range(1, 32)), Tensor(1, dtype=dtypes.int32))
    # total * 2^(31 - bits) has its highest bit at 30.
    normal = total.cast(dtypes.int64) << (31 - bits).cast(dtypes.int64)
    place = ((normal + (1 << 13)) >> 14) - (1 << 15) - (1 << 16)
    place = clipped(place, *_INT16, (-(1 << 17), 1 << 17)).cast(dtypes.int32).contiguous()
    inverse = _between(node, place, RECIPROCALS, "reciprocals").contiguous()
    right = bits - 1
    number = (powers * inverse + (Tensor(1, dtype=dtypes.int32) << (right - 1))) >> right
    return clipped(number, 0, _INT16[1], (0, 1 << 31)).cast(dtypes.int16)


def _between(node: TfliteNode, x: Tensor, table: npt.NDArray[np.int64], key: str) -> Tensor:
    """Entries of a table of 513 over all int16 codes, interpolated with 7 bits."""
    place, part = 256 + (x >> 7), x & 127
    low = lookup(node, place, table[:-1], dtypes.int32, key)
    rise = lookup(node, place, np.diff(table), dtypes.int32, f"{key}_rises")
    return low + ((rise * part + 64) >> 7)
