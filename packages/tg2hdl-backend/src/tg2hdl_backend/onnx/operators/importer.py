"""Operators of tinygrad's importer where it leaves out a default, a version or a case of ONNX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.operators.arithmetic import constant, wide
from tg2hdl_backend.onnx.operators.convolution import check_padding
from tg2hdl_backend.onnx.operators.declared import finite_bound
from tg2hdl_backend.onnx.tensors import sizes_of
from tg2hdl_backend.onnx.tinygrad_operators import tinygrad_operator

__all__ = [
    "arg_max",
    "arg_min",
    "average_pool",
    "conv_transpose",
    "gather_elements",
    "global_max_pool",
    "greater_or_equal",
    "group_normalization",
    "less_or_equal",
    "max_pool",
    "mean_variance_normalization",
    "power",
    "reduce_log_sum_exp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "slice_",
    "split",
    "top_k",
    "top_k_1",
]


_LEAST = -0x7F800000
"""Key of the smallest finite float32, see `_sortable`."""
_SORTABLE = {dtypes.float32: dtypes.int32, dtypes.float64: dtypes.int64}


def _own(node: OnnxNode, *inputs: Any, **attributes: Any) -> Any:
    """Tinygrad's result with attributes in place of the node's."""
    build = tinygrad_operator(node.op_type, node.domain, node.version)
    assert build is not None
    given = {n: v for n, v in {**node.attributes, **attributes}.items() if v is not None}
    return build(replace(node, attributes=given), *inputs)


def less_or_equal(node: OnnxNode, a: Tensor, b: Tensor) -> Tensor:
    """False where a number is NaN; tinygrad's own is the inverse of greater.

    Parameters
    ----------
    node, a, b
        The node and its inputs, as ONNX defines `LessOrEqual`.
    """
    return (a < b) | (a == b) if dtypes.is_float(a.dtype) else a <= b


def greater_or_equal(node: OnnxNode, a: Tensor, b: Tensor) -> Tensor:
    """False where a number is NaN.

    Parameters
    ----------
    node, a, b
        The node and its inputs, as ONNX defines `GreaterOrEqual`.
    """
    return less_or_equal(node, b, a)


def _float_power(x: Tensor, y: Tensor) -> Tensor:
    """Power with an exponent that depends on data, or is not finite."""
    y, size = y.cast(x.dtype), x.abs()
    result = ((size == 1) | (y == 0)).where(1, (size.log2() * y).exp2())
    half = y * 0.5
    whole, odd = y.trunc() == y, (half.trunc() != half)
    below = x.bitcast(_SORTABLE[x.dtype]) < 0
    undefined = below & ~whole & (x != 0) & ~x.isinf()
    unknown = (x.isnan() & (y != 0)) | (y.isnan() & (x != 1)) | undefined
    return unknown.where(np.nan, (below & odd & whole).where(-result, result))


def power(node: OnnxNode, x: Tensor, y: Tensor) -> Tensor:
    """Powers of integers are exact; those of floats have the special values of C's ``pow``.

    Parameters
    ----------
    node, x, y
        The node and its inputs, as ONNX defines `Pow`.
    """
    known = node.known(1)
    if not dtypes.is_int(x.dtype):
        if known is not None and np.isnan(known).all():
            return (x == 1).where(1.0, np.nan).cast(x.dtype)
        if known is None or np.size(known) != 1 or not np.isfinite(known).all():
            return _float_power(wide(x), y if known is None else constant(node, known)).cast(x.dtype)
        if not (known == np.rint(known)).all():
            # A fractional power of minus zero or of minus infinity is positive.
            x = (x == 0).where(0, (x == -np.inf).where(np.inf, x))
        result: Tensor = _own(node, x, y)
        return result
    if dtypes.is_float(y.dtype):
        if known is None or not (known == np.rint(known)).all():
            raise node.unsupported("an integer to a power with a fraction", "cast the base to float")
        y = y.cast(dtypes.int32)
    largest = x.dtype.bitsize - 1 if known is None else int(known.max())
    result, square = x.const_like(1), x
    for bit in range(max(1, largest.bit_length())):
        result = ((y >> bit) & 1 == 1).where(result * square, result)
        square = square * square
    if known is not None and known.min() >= 0:
        return result
    odd = (y & 1 == 1).where(x, 1)
    return (y < 0).where((x * x == 1).where(odd, 0), result).cast(x.dtype)


def _turned(bits: Tensor) -> Tensor:
    """Bits of a float as an integer of the same order, and back."""
    return (bits < 0).where(bits ^ bits.dtype.max, bits)


def _sortable(x: Tensor) -> Tensor:
    """Integers in the order of numbers; NaN is the largest."""
    value = wide(x)
    bits = value.bitcast(_SORTABLE[value.dtype])
    return (value != value).where(bits.dtype.max, _turned(bits))


def _numbers(keys: Tensor, like: Tensor) -> Tensor:
    """Numbers of the type of `like` that have these keys."""
    return _turned(keys).bitcast(wide(like).dtype).cast(like.dtype)


def _inverse_sortable(x: Tensor) -> Tensor:
    return _inverted(_sortable(x))


def _inverted(keys: Tensor) -> Tensor:
    """Keys in the opposite order, in which NaN stays the largest; a second time gives the keys again."""
    found: Tensor = (keys == keys.dtype.max).where(keys, keys.bitwise_not())
    return found


def _equal_zeros(x: Tensor) -> Tensor:
    return (x == 0).where(0, x)


def arg_max(node: OnnxNode, x: Tensor) -> Any:
    """Index of the largest; NaN counts only where it is the first element, as in ONNX Runtime.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `ArgMax`.
    """
    return _own(node, _keys_of_places(node, x, _sortable) if dtypes.is_float(x.dtype) else x)


def arg_min(node: OnnxNode, x: Tensor) -> Any:
    """Index of the smallest, found as that of the largest; integers are inverted, which cannot overflow.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `ArgMin`.
    """
    is_float = dtypes.is_float(x.dtype)
    keys = _keys_of_places(node, x, _inverse_sortable) if is_float else x.bitwise_not()
    return _own(replace(node, op_type="ArgMax"), keys)


def _keys_of_places(node: OnnxNode, x: Tensor, order: Callable[[Tensor], Tensor]) -> Tensor:
    """Keys whose maximum is the wanted element: NaN is the largest as the first element, elsewhere the smallest.

    This is what a comparison of each element with the largest before it does: any with NaN is false.
    """
    axis = int(node.attribute("axis", 0)) % x.ndim
    count = sizes_of(x)[axis]
    keys = order(_equal_zeros(x))
    place = Tensor.arange(count, dtype=dtypes.int32).reshape(count, *[1] * (x.ndim - 1 - axis))
    return x.isnan().where((place == 0).where(keys.dtype.max, keys.dtype.min), keys)


def reduce_max(node: OnnxNode, x: Tensor, *axes: Any) -> Any:
    """Largest; NaN if an element is.

    Parameters
    ----------
    node, x, *axes
        The node and its inputs, as ONNX defines `ReduceMax`.
    """
    if finite_bound(x) is None:
        return _own(node, x, *axes)
    return _numbers(_own(node, _sortable(x), *axes), x)


def reduce_min(node: OnnxNode, x: Tensor, *axes: Any) -> Any:
    """Smallest; NaN if an element is.

    Parameters
    ----------
    node, x, *axes
        The node and its inputs, as ONNX defines `ReduceMin`.
    """
    if finite_bound(x) is None:
        return _own(node, x, *axes)
    found = _own(replace(node, op_type="ReduceMax"), _inverse_sortable(x), *axes)
    return _numbers(_inverted(found), x)


def _reduced_axes(node: OnnxNode, x: Tensor, axes: Any) -> tuple[int, ...] | None:
    """Axes of a reduction, counted from the first one; None where the operator returns its operand."""
    chosen = node.attribute("axes") if axes is None else [int(a) for a in np.atleast_1d(axes)]
    if not chosen and node.attribute("noop_with_empty_axes", 0):
        return None
    return tuple(a % x.ndim for a in chosen or range(x.ndim))


def reduce_mean(node: OnnxNode, x: Tensor, axes: Any = None) -> Tensor:
    """Mean; of integers the quotient towards zero.

    Parameters
    ----------
    node, x, axes
        The node and its inputs, as ONNX defines `ReduceMean`.
    """
    if not dtypes.is_int(x.dtype):
        result: Tensor = _own(node, x, *(() if axes is None else (axes,)))
        return result
    over = _reduced_axes(node, x, axes)
    if over is None:
        return x
    total = x.sum(over, keepdim=bool(node.attribute("keepdims", 1)), dtype=x.dtype)
    return total.div(int(np.prod([sizes_of(x)[a] for a in over])), rounding_mode="trunc").cast(x.dtype)


def reduce_log_sum_exp(node: OnnxNode, x: Tensor, axes: Any = None) -> Tensor:
    """Logarithm of a sum of exponentials, none of which overflows.

    Parameters
    ----------
    node, x, axes
        The node and its inputs, as ONNX defines `ReduceLogSumExp`.
    """
    over = _reduced_axes(node, x, axes)
    if over is None:
        return x
    value, keep = wide(x), bool(node.attribute("keepdims", 1))
    largest = value.max(over, keepdim=True)
    largest = largest.isinf().where(0, largest)
    total = (value - largest).exp().sum(over, keepdim=keep).log()
    return (total + largest.reshape(total.shape)).cast(x.dtype)


def group_normalization(node: OnnxNode, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Scale and bias of each channel; before version 21 of each group.

    Parameters
    ----------
    node, x, scale, bias
        The node and its inputs, as ONNX defines `GroupNormalization`.
    """
    if node.version < 21:
        channels = sizes_of(x)[1] // node.attribute("num_groups")
        scale, bias = scale.repeat_interleave(channels), bias.repeat_interleave(channels)
    result: Tensor = _own(node, x, scale, bias)
    return result


def _top(node: OnnxNode, x: Tensor, count: int) -> Any:
    is_float = dtypes.is_float(x.dtype)
    keys = _sortable(_equal_zeros(x)) if is_float else x
    values, places = _own(node, keys, [count], k=None, largest=node.attribute("largest", 1))
    return _numbers(values, x) if is_float else values, places


def top_k_1(node: OnnxNode, x: Tensor) -> Any:
    """Version 1: the count is an attribute.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `TopK`.
    """
    return _top(node, x, node.attribute("k"))


def top_k(node: OnnxNode, x: Tensor, count: Any) -> Any:
    """The largest or smallest along an axis, with their places; NaN counts as the largest.

    Parameters
    ----------
    node, x, count
        The node and its inputs, as ONNX defines `TopK`.
    """
    return _top(node, x, int(np.asarray(count).reshape(())))


def slice_(node: OnnxNode, x: Tensor, *given: Any) -> Tensor:
    """Slices of all axes from the first when none are named.

    Parameters
    ----------
    node, x, *given
        The node and its inputs, as ONNX defines `Slice`.
    """
    if given:
        starts, ends, axes, steps = (
            *(np.atleast_1d(g) if g is not None else None for g in given),
            None,
            None,
        )[:4]
    else:
        starts, ends, axes, steps = (node.attribute(n) for n in ("starts", "ends", "axes", "steps"))
    assert starts is not None
    assert ends is not None
    places = [slice(None)] * x.ndim
    for n, axis in enumerate(range(len(starts)) if axes is None else axes):
        places[int(axis) % x.ndim] = slice(
            int(starts[n]), int(ends[n]), 1 if steps is None else int(steps[n])
        )
    return x[tuple(places)]


def split(node: OnnxNode, x: Tensor, sizes: Any = None) -> Any:
    """Parts of given sizes, or parts of equal size except for the last, which may be smaller.

    Parameters
    ----------
    node, x, sizes
        The node and its inputs, as ONNX defines `Split`.
    """
    axis = node.attribute("axis", 0) % x.ndim
    given = node.attribute("split") if sizes is None else sizes
    if given is None:
        length, count = sizes_of(x)[axis], node.attribute("num_outputs", len(node.outputs))
        part = -(-length // count)
        given = [max(0, min(part, length - n * part)) for n in range(count)]
    return x.split([int(n) for n in given], axis)


def conv_transpose(node: OnnxNode, *inputs: Tensor | None) -> Any:
    """Transposed convolution; VALID is without padding, for which tinygrad takes the sizes of SAME.

    SAME pads nothing along an axis whose windows leave gaps: the result is then smaller than input times stride.
    """
    mode = node.attribute("auto_pad", "NOTSET")
    if mode == "VALID":
        return _own(node, *inputs, auto_pad=None, pads=None)
    x, w = inputs[:2]
    if not mode.startswith("SAME") or x is None or w is None:
        return _own(node, *inputs)
    rank = x.ndim - 2
    options = [node.attribute(name) for name in ("strides", "dilations", "output_padding")]
    strides, dilations, more = (o or [d] * rank for o, d in zip(options, (1, 1, 0), strict=True))
    totals = [
        (k - 1) * d + 1 - s + m for k, s, d, m in zip(sizes_of(w)[2:], strides, dilations, more, strict=True)
    ]
    if min(totals) >= 0:
        return _own(node, *inputs)
    small = [max(t, 0) // 2 for t in totals]
    large = [max(t, 0) - p for t, p in zip(totals, small, strict=True)]
    pads = small + large if mode == "SAME_UPPER" else large + small
    return _own(node, *inputs, auto_pad=None, pads=pads)


def gather_elements(node: OnnxNode, x: Tensor, indices: Tensor) -> Any:
    """Elements along one axis, the first by default.

    Parameters
    ----------
    node, x, indices
        The node and its inputs, as ONNX defines `GatherElements`.
    """
    return _own(node, x, indices, axis=node.attribute("axis", 0))


def _maxima(keys: Tensor, x: Tensor) -> Tensor:
    """Numbers of the type of `x` with these keys; with float32 ONNX Runtime begins at the smallest finite one."""
    return _numbers(keys.maximum(_LEAST) if x.dtype == dtypes.float32 else keys, x)


def global_max_pool(node: OnnxNode, x: Tensor) -> Any:
    """Maximum of each channel; NaN if an element is.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `GlobalMaxPool`.
    """
    if finite_bound(x) is None:
        return _own(node, x)
    return _maxima(_own(node, _sortable(x)), x)


def average_pool(node: OnnxNode, x: Tensor) -> Any:
    """Mean of each window.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `AveragePool`.
    """
    check_padding(node, x)
    return _own(node, x)


def max_pool(node: OnnxNode, x: Tensor) -> Any:
    """Maxima and, where used, their places in the whole tensor; tinygrad's are places in a channel.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `MaxPool`.
    """
    check_padding(node, x)
    if finite_bound(x) is None:
        found, place = _own(node, x, storage_order=None)
    else:
        found, place = _own(node, _sortable(x), storage_order=None)
        found = _maxima(found, x)
    if not node.uses(1):
        return found
    sizes = sizes_of(x)[2:]
    if node.attribute("storage_order", 0):
        # Column major: the first axis of the image counts fastest.
        rest, place, step = place, place.const_like(0), int(np.prod(sizes))
        for size in reversed(sizes):
            step //= size
            place, rest = place + rest % size * step, rest // size
    planes = Tensor.arange(int(np.prod(sizes_of(x)[:2])), dtype=place.dtype) * int(np.prod(sizes))
    return found, place + planes.reshape(*x.shape[:2], *[1] * len(sizes))


def mean_variance_normalization(node: OnnxNode, x: Tensor) -> Tensor:
    """``(x - mean) / (deviation + 1e-9)`` over the axes.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `MeanVarianceNormalization`.
    """
    axes = tuple(node.attribute("axes") or (0, 2, 3))
    mean = x.mean(axes, keepdim=True)
    spread = ((x * x).mean(axes, keepdim=True) - mean * mean).sqrt()
    return (x - mean) / (spread + 1e-9)
