"""Functions of one number: of float32, and those that TFLM has for codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_tflite.arithmetic import absolute, elu, multiplier, reciprocal_root
from tg2hdl_tflite.node import TfliteNode, operator
from tg2hdl_tflite.operators.activations import by_table
from tg2hdl_tflite.requantize import clipped, two_roundings

_FLOAT_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "NEG": lambda x: -x,
    "EXP": lambda x: x.exp(),
    "LOG": lambda x: x.log(),
    "SQRT": lambda x: x.sqrt(),
    "SIN": lambda x: x.sin(),
    "COS": lambda x: x.cos(),
    "SQUARE": lambda x: x * x,
    "FLOOR": lambda x: x.floor(),
    "CEIL": lambda x: x.ceil(),
}


@operator(*_FLOAT_FUNCTIONS, version=1)
def float_function(node: TfliteNode) -> Any:
    """Functions of float numbers."""
    x = node.input(0)
    kinds = {x.record.kind, node.output.kind}
    if kinds == {"FLOAT32"}:
        return _FLOAT_FUNCTIONS[node.name](x.tensor)
    if kinds <= {"INT8", "INT16"}:
        raise node.refuse(
            f"TensorFlow Lite Micro has no form of it for {node.output.kind} codes",
            "keep this layer in float32, or replace it in the model",
        )
    raise node.wrong_types(kinds)


@operator("ELU", version=1)
def elu_(node: TfliteNode) -> Any:
    """By a table that TFLM computes in float32."""
    x = node.input(0)
    if not node.is_codes(x):
        return (x.tensor < 0).where(x.tensor.minimum(0.0).exp() - 1.0, x.tensor)
    node.micro_only()
    s_out, zero = node.out_quantization()
    return by_table(node, x, lambda v: elu(v, node.scale_of(x), s_out, zero))


@operator("ABS", version=2)
def absolute_(node: TfliteNode) -> Any:
    """Sizes go to the scale of the result where it has another one."""
    x = node.input(0)
    if not node.is_codes(x, wide=True):
        return x.tensor.abs()
    node.micro_only()
    s_out, zero = node.out_quantization()
    if not node.is_wide:
        return by_table(node, x, lambda v: np.clip(absolute(v, x.scale, s_out) + zero, -128, 127))
    size = two_roundings(node, x.tensor.cast(dtypes.int32).abs(), multiplier(float(x.scale) / float(s_out)))
    return clipped(size, 0, 32767, (-(1 << 31), 1 << 31)).cast(dtypes.int16)


@operator("RSQRT", version=2)
def reciprocal_root_(node: TfliteNode) -> Any:
    """By five steps in fixed point; TFLM ends with an error below zero."""
    x = node.input(0)
    if not node.is_codes(x):
        return x.tensor.rsqrt()
    node.micro_only()
    s_out, zero = node.out_quantization()
    if x.codes.ends[0] < x.zero:
        raise node.refuse(
            f"codes below the zero point {x.zero} are numbers below zero, which have no root",
            "quantize the model again with numbers from zero on, or apply RELU before it",
        )
    return by_table(node, x, lambda v: reciprocal_root(v, node.scale_of(x), s_out, zero))


__all__ = ["absolute_", "elu_", "float_function", "reciprocal_root_"]
