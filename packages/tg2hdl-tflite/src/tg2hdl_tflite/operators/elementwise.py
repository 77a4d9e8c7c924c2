"""Operators of two tensors, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_ir.tensors.narrow_multipliers import fit_plane
from tg2hdl_tflite.arithmetic import multiplier, quotient, scaled
from tg2hdl_tflite.node import TfliteNode, operator
from tg2hdl_tflite.operators.activations import by_rows
from tg2hdl_tflite.operators.floats import activated
from tg2hdl_tflite.requantize import clipped, lookup, requantized, two_roundings, wide_codes
from tg2hdl_tflite.value import LIMITS, Bounds, TfliteValue, dtype_of

Array = npt.NDArray[Any]
_LEFT = 20
"""Bits by which TFLM moves int8 operands up before it scales them."""
_LEFT_16 = 15
"""The same of int16."""
_LEFT_SQUARED = 7
"""The same of int8 operands whose difference is squared."""


@operator("ADD", version=5)
def add(node: TfliteNode) -> Any:
    """Both sides on one scale of 20 further bits, then to that of the result."""
    return _sum(node, 1)


@operator("SUB", version=5)
def sub(node: TfliteNode) -> Any:
    """As `add`."""
    return _sum(node, -1)


def _sum(node: TfliteNode, sign: int) -> Any:
    a, b = node.input(0), node.input(1)
    if not _is_codes(node, a, b):
        return _plain(node, a, b, lambda x, y: x + y if sign > 0 else x - y)
    if node.is_wide:
        return _sum_of_16_bits(node, a, b, sign)
    s_out, zero = node.out_quantization()
    limits = node.limits()
    twice = 2 * max(float(node.scale_of(a)), float(node.scale_of(b)))
    last = twice / (float(1 << _LEFT) * float(s_out))
    spans = [np.arange(v.codes.ends[0], v.codes.ends[1] + 1) for v in (a, b)]
    sides = [
        scaled((span - v.zero) << _LEFT, multiplier(float(v.scale) / twice))
        for span, v in zip(spans, (a, b), strict=True)
    ]
    sides[1] = sides[1] * sign
    total = sides[0][:, None] + sides[1][None, :]
    codes = np.clip(scaled(total, multiplier(last)) + zero, *limits)
    bounds = Bounds(codes.min(), codes.max())
    ratios = float(a.scale) / float(s_out), sign * float(b.scale) / float(s_out)
    plane = fit_plane(spans[0][:, None], spans[1][None, :], codes, ratios, *limits)
    if plane is not None:
        factors, constant, shift = plane
        reach = sum(
            max(abs(int(s[0])), abs(int(s[-1]))) * abs(f) for s, f in zip(spans, factors, strict=True)
        ) + abs(constant)
        wide = dtypes.int32 if reach < 1 << 31 else dtypes.int64
        number = a.tensor.cast(wide) * factors[0] + b.tensor.cast(wide) * factors[1] + constant
        number = clipped(number >> shift, *limits, (-reach >> shift, reach >> shift)).cast(dtypes.int8)
        return TfliteValue(node.output, number.expand(node.output.shape), None, bounds)
    tables = [
        lookup(node, v.tensor.cast(dtypes.int32) - int(span[0]), side, dtypes.int32, key)
        for v, span, side, key in zip((a, b), spans, sides, ("first", "second"), strict=True)
    ]
    made, _ = requantized(
        node, tables[0] + tables[1], np.array(last), total.min(), total.max(), zero, limits, dtypes.int8
    )
    return TfliteValue(node.output, made.expand(node.output.shape), None, bounds)


def _sum_of_16_bits(node: TfliteNode, a: TfliteValue, b: TfliteValue, sign: int) -> TfliteValue:
    """As for int8 with 15 further bits; there is no table of 65536 entries."""
    s_out, _ = node.out_quantization()
    twice = 2 * max(float(a.scale), float(b.scale))
    scales = (*(float(v.scale) for v in (a, b)), float(s_out))
    if all(np.frexp(s)[0] == 0.5 for s in scales) and node.option("PotScaleInt16"):
        # LiteRT's reference kernel then only shifts; TFLM ignores the option.
        node.micro_only()
    sides = [
        two_roundings(node, v.tensor.cast(dtypes.int32) << _LEFT_16, multiplier(float(v.scale) / twice), key)
        for v, key in ((a, "first_"), (b, "second_"))
    ]
    total = (sides[0] + sides[1] * sign).cast(dtypes.int32)
    last = multiplier(twice / (float(1 << _LEFT_16) * float(s_out)))
    number = clipped(two_roundings(node, total, last), *node.limits(), (-(1 << 31), 1 << 31))
    return TfliteValue(node.output, number.cast(dtypes.int16).expand(node.output.shape))


@operator("MUL", version=7)
def mul(node: TfliteNode) -> Any:
    """The product of the steps, rounded as sums are."""
    a, b = node.input(0), node.input(1)
    if not _is_codes(node, a, b):
        return _plain(node, a, b, lambda x, y: x * y)
    s_out, zero = node.out_quantization()
    real = float(node.scale_of(a)) * float(node.scale_of(b)) / float(s_out)
    if not node.is_micro:
        real = float(a.scale * b.scale / s_out)  # In float32.
    kind = dtype_of(node.output.kind)
    corners = np.outer([end - a.zero for end in a.codes.ends], [end - b.zero for end in b.codes.ends])
    found, bounds = requantized(
        node,
        a.steps() * b.steps(),
        np.array(real),
        corners.min(),
        corners.max(),
        zero,
        node.limits(),
        kind,
    )
    return TfliteValue(node.output, found.expand(node.output.shape), None, bounds)


@operator("MAXIMUM", version=4)
def maximum(node: TfliteNode) -> Any:
    """Of codes of one scale."""
    return _extreme(node, lambda x, y: np.maximum(x, y) if isinstance(x, np.ndarray) else x.maximum(y))


@operator("MINIMUM", version=4)
def minimum(node: TfliteNode) -> Any:
    """Of codes of one scale."""
    return _extreme(node, lambda x, y: np.minimum(x, y) if isinstance(x, np.ndarray) else (x < y).where(x, y))


def _extreme(node: TfliteNode, choose: Callable[[Any, Any], Any]) -> Any:
    a, b = node.input(0), node.input(1)
    if not _is_codes(node, a, b):
        return _plain(node, a, b, choose)
    node.same_scales(a, b)
    return choose(*_same_shape(node, a.tensor, b.tensor))


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "EQUAL": lambda x, y: x == y,
    "NOT_EQUAL": lambda x, y: x != y,
    "GREATER": lambda x, y: x > y,
    "GREATER_EQUAL": lambda x, y: x >= y,
    "LESS": lambda x, y: x < y,
    "LESS_EQUAL": lambda x, y: x <= y,
    "LOGICAL_AND": lambda x, y: x & y,
    "LOGICAL_OR": lambda x, y: x | y,
}


@operator(*_COMPARISONS, version=3)
def comparison(node: TfliteNode) -> Any:
    """Of numbers, or of codes of one scale."""
    a, b = node.input(0), node.input(1)
    kinds = {a.record.kind, b.record.kind}
    allowed = (
        {"BOOL"}
        if node.name.startswith("LOGICAL")
        else {"FLOAT32", "INT32", "INT64", "INT8", "INT16", "BOOL"}
    )
    if len(kinds) > 1 or not kinds <= allowed or node.output.kind != "BOOL":
        raise node.wrong_types({*kinds, node.output.kind})
    is_codes = a.record.is_quantized or b.record.is_quantized
    if is_codes and (node.scale_of(a) != node.scale_of(b) or a.zero != b.zero):
        raise node.refuse("operands of two scales", "give both one scale")
    return _plain(node, a, b, _COMPARISONS[node.name])


@operator("LOGICAL_NOT", version=1)
def logical_not(node: TfliteNode) -> Any:
    """Of truth values."""
    x = node.input(0)
    if {x.record.kind, node.output.kind} != {"BOOL"}:
        raise node.wrong_types({x.record.kind, node.output.kind})
    return TfliteValue(node.output, None, ~x.array) if x.array is not None else x.tensor.logical_not()


@operator("DIV", version=2)
def div(node: TfliteNode) -> Any:
    """Of float numbers, or of codes by constants: a table for each of the divisors."""
    a, b = node.input(0), node.input(1)
    if not node.is_codes(a, b):
        return _plain(node, a, b, lambda x, y: x / y)
    node.micro_only()
    divisors = node.constant(1).astype(np.int64) - b.zero
    if not np.all(divisors):
        raise node.refuse("a division by 0", "train or export the model again")
    s_out, zero = node.out_quantization()
    real = float(node.scale_of(a)) / (float(node.scale_of(b)) * float(s_out))
    unique, place = np.unique(divisors, return_inverse=True)
    steps = np.arange(a.codes.ends[0], a.codes.ends[1] + 1) - a.zero
    codes, shifts = quotient(steps, unique[:, None], real)
    if np.any((shifts < -31) | (shifts > 0)):
        raise node.refuse(
            "TensorFlow Lite Micro shifts by more than 31 bits, whose result depends on the processor",
            "multiply by the reciprocal instead",
        )
    return by_rows(node, a, np.clip(codes + zero, *node.limits()), place.reshape(divisors.shape))


def _is_codes(node: TfliteNode, a: TfliteValue, b: TfliteValue) -> bool:
    kinds = {a.record.kind, b.record.kind, node.output.kind}
    if len(kinds) == 1 and kinds <= {"INT32", "INT64"} and not node.output.scale.size:
        return False
    return node.is_codes(a, b, wide=True)


def _same_shape(node: TfliteNode, *tensors: Tensor) -> list[Tensor]:
    try:
        shape = np.broadcast_shapes(*(tuple(int(n) for n in t.shape) for t in tensors))
    except ValueError:
        shapes = " and ".join(str(tuple(t.shape)) for t in tensors)
        raise node.refuse(f"operands of the shapes {shapes}", "export the model again") from None
    return [t.expand(shape) for t in tensors]


def _plain(node: TfliteNode, a: TfliteValue, b: TfliteValue, compute: Callable[[Any, Any], Any]) -> Any:
    """Numbers of one type; constants of integers give a constant, such as the count of a loop."""
    if a.array is not None and b.array is not None and node.output.kind in ("INT32", "INT64", "BOOL"):
        found = compute(a.array, b.array)
        return TfliteValue(node.output, None, np.asarray(found, node.output.numpy))
    number = compute(*_same_shape(node, a.tensor, b.tensor))
    return (
        activated(node, number) if node.output.kind == "FLOAT32" else number.cast(dtype_of(node.output.kind))
    )


@operator("SQUARED_DIFFERENCE", version=2)
def squared_difference(node: TfliteNode) -> Any:
    """Both sides on one scale of 7 further bits; their difference is squared and goes to that of the result."""
    a, b = node.input(0), node.input(1)
    if not node.is_codes(a, b):
        return _plain(node, a, b, lambda x, y: (x - y) * (x - y))
    node.micro_only()
    s_out, zero = node.out_quantization()
    twice = 2 * max(float(node.scale_of(a)), float(node.scale_of(b)))
    sides, reach = [], []
    for value, key in ((a, "first"), (b, "second")):
        low, high = value.codes.ends
        side = scaled(
            (np.arange(low, high + 1) - value.zero) << _LEFT_SQUARED,
            multiplier(float(value.scale) / twice),
        )
        sides.append(lookup(node, value.tensor.cast(dtypes.int32) - low, side, dtypes.int32, key))
        reach.append((int(side.min()), int(side.max())))
    low, high = reach[0][0] - reach[1][1], reach[0][1] - reach[1][0]
    difference = sides[0] - sides[1]
    real = twice * twice / (float(1 << 2 * _LEFT_SQUARED) * float(s_out))
    found, bounds = requantized(
        node,
        difference * difference,
        np.array(real),
        0 if low <= 0 <= high else min(low * low, high * high),
        max(low * low, high * high),
        zero,
        LIMITS["INT8"],
        dtypes.int8,
    )
    return TfliteValue(node.output, found.expand(node.output.shape), None, bounds)


@operator("BATCH_MATMUL", version=4)
def batch_matmul(node: TfliteNode) -> Any:
    """Products of two tensors, with zero points on both sides."""
    a, b = node.input(0), node.input(1)
    is_codes = node.is_codes(a, b, wide=True)
    x, y = (v.steps() if is_codes else v.tensor for v in (a, b))
    if min(len(x.shape), len(y.shape)) < 2:
        raise node.refuse("an operand with fewer than two axes", "export the model again")
    x = x.transpose(-1, -2) if node.option("AdjX") else x
    y = y.transpose(-1, -2) if node.option("AdjY") else y
    if x.shape[-1] != y.shape[-2]:
        raise node.refuse(f"a product of the shapes {x.shape} and {y.shape}", "export the model again")
    if not is_codes:
        return x.matmul(y)
    s_out, zero = node.out_quantization()
    real = float(node.scale_of(a)) * float(node.scale_of(b)) / float(s_out)
    if not node.is_micro:
        real = float(a.scale * b.scale) / float(s_out)  # The product in float32.
    corners = np.outer([e - a.zero for e in a.codes.ends], [e - b.zero for e in b.codes.ends]) * int(
        x.shape[-1]
    )
    low, high = corners.min(), corners.max()
    if node.is_wide:
        node.micro_only()
        number = x.matmul(y, dtype=dtypes.int64)
        found, bounds = wide_codes(node, number, np.array(real), low, high, node.limits(), dtypes.int16)
    else:
        found, bounds = requantized(
            node, x.matmul(y), np.array(real), low, high, zero, node.limits(), dtypes.int8
        )
    return TfliteValue(node.output, found, None, bounds)


@operator("SELECT_V2", "SELECT", version=1)
def select(node: TfliteNode) -> Any:
    """One of two tensors by a third one."""
    condition, a, b = (node.input(n) for n in range(3))
    if node.output.is_quantized:
        node.same_scales(a, b)
    picked = _same_shape(node, condition.tensor, a.tensor, b.tensor)
    return picked[0].where(picked[1], picked[2])


__all__ = ["add", "batch_matmul", "div", "maximum", "minimum", "mul", "select", "sub"]
