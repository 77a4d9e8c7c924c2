"""SOFTMAX of int8 codes: a table of exponentials, their sum, and one reciprocal for each row."""

from __future__ import annotations

import math
from typing import Any

from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_tflite.arithmetic import softmax_exponentials
from tg2hdl_tflite.node import TfliteNode, operator
from tg2hdl_tflite.operators.tables16 import softmax16
from tg2hdl_tflite.requantize import clipped, lookup
from tg2hdl_tflite.value import TfliteValue

__all__ = ["softmax"]

_INT32 = 1 << 31


@operator("SOFTMAX", version=3)
def softmax(node: TfliteNode) -> Any:
    """Along the last axis."""
    x = node.input(0)
    beta = float(node.option("Beta"))
    if not node.is_codes(x, wide=True):
        return (x.tensor * beta if beta != 1 else x.tensor).softmax(-1)
    s_out, zero = node.out_quantization()
    wanted = (1 / 32768, 0) if node.is_wide else (1 / 256, -128)
    if (float(s_out), zero) != wanted:
        raise node.refuse(
            f"the result has scale {float(s_out)} and zero point {zero}, not {wanted[0]} and {wanted[1]}",
            "convert the model again",
        )
    if beta <= 0:
        raise node.refuse(f"beta is {beta}", "export the model again")
    if node.is_wide:
        node.micro_only()
        return softmax16(node, x, beta)
    count = x.record.shape[-1]
    if count >= 1 << 12:
        raise node.refuse(f"a row of {count} codes", "give rows of fewer than 4096 codes")
    table = softmax_exponentials(x.scale, beta)
    codes = x.tensor.cast(dtypes.int32)
    difference = (codes.max(-1, keepdim=True) - codes).contiguous()
    powers = lookup(node, difference, table, dtypes.int32, "exponentials")
    # Sums of exponentials of 12 fewer bits; the largest one is 2^19.
    parts = lookup(node, difference, (table + (1 << 11)) >> 12, dtypes.int32, "parts")
    total = parts.sum(-1, keepdim=True).contiguous()
    bits = sum(((total >= 1 << n).cast(dtypes.int32) for n in range(1, 32)), Tensor(1, dtype=dtypes.int32))
    # total * 2^(32 - bits) has its highest bit at 31.
    normal = total.cast(dtypes.int64) << (32 - bits).cast(dtypes.int64)
    scale = _reciprocal(normal - _INT32).contiguous()
    right = (bits + 3).cast(dtypes.int64)
    product = _high(scale, powers.cast(dtypes.int64))
    number = (product + (Tensor(1, dtype=dtypes.int64) << (right - 1))) >> right
    number = clipped(number - 128, -128, 127, (-128, 1 << 31))
    # Codes far below the largest one are not summed: their exponential is 0.
    return TfliteValue(node.output, number.cast(dtypes.int8))


def _high(a: Tensor, b: Tensor | int) -> Tensor:
    return (a * b + (1 << 30)) >> 31


def _reciprocal(a: Tensor) -> Tensor:
    """1 / (1 + a) in Q0.31 of a in Q0.31, in integers of 64 bits."""

    def constant(value: float) -> int:
        return math.floor(value * 2.0**29 + 0.5)

    half = (a + _INT32) >> 1
    x = _high(half, constant(-32 / 17)) + constant(48 / 17)
    for _ in range(3):
        x = x + (_high(x, (1 << 29) - _high(half, x)) << 2)
    doubled = x << 1
    return (doubled < _INT32).where(doubled, _INT32 - 1)
