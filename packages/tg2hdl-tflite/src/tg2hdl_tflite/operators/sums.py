"""Sums of products with constant weights: convolutions and fully connected layers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_tflite.arithmetic import clip, nearest
from tg2hdl_tflite.node import TfliteNode, operator
from tg2hdl_tflite.operators.floats import activated
from tg2hdl_tflite.requantize import requantized, to_codes, wide_codes
from tg2hdl_tflite.value import Bounds, TfliteValue, dtype_of

__all__ = ["SlidingWindow", "window_of"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class SlidingWindow:
    """How a window moves over an image.

    Parameters
    ----------
    stride, dilation : (int, int)
        Along height and width.
    padding : (int, int, int, int)
        Before and after the width, before and after the height.
    """

    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]

    @property
    def is_padded(self) -> bool:
        """Whether a window can leave the image."""
        return any(self.padding)


def window_of(node: TfliteNode, size: tuple[int, ...], kernel: tuple[int, ...]) -> SlidingWindow:
    """The window of an operator over an image of height and width.

    Parameters
    ----------
    node : TfliteNode
        With strides, dilations and padding.
    size : tuple of int
        Height and width of the image in elements.
    kernel : tuple of int
        Height and width of the window in taps.

    Raises
    ------
    UnsupportedError
        For a window without taps, or one that is larger than an image without padding.
    """
    stride = int(node.option("StrideH")), int(node.option("StrideW"))
    options = node.record.options
    dilation = int(options.get("DilationHFactor", 1)), int(options.get("DilationWFactor", 1))
    # A file without options has 0 where 1 is meant for dilations only.
    if min(*stride, *dilation, *kernel) < 1:
        raise node.refuse(
            f"a window of {kernel} with strides {stride} and dilations {dilation}", "export the model again"
        )
    pads: list[tuple[int, int]] = []
    for length, taps, step, spread in zip(size, kernel, stride, dilation, strict=True):
        span = (taps - 1) * spread + 1
        if node.option("Padding"):
            if span > length:
                raise node.refuse(f"a window of {span} over {length} elements", "export the model again")
            pads.append((0, 0))
        else:
            total = max((-(-length // step) - 1) * step + span - length, 0)
            pads.append((total // 2, total - total // 2))
    return SlidingWindow(stride, dilation, (*pads[1], *pads[0]))


@operator("CONV_2D", version=8)
def conv_2d(node: TfliteNode) -> Any:
    """Weights are O, H, W, I; groups where an image has more channels than I."""
    x, weights = node.input(0), node.input(1)
    _check_rank(node, x, weights)
    w = node.constant(1)
    channels = x.record.shape[3]
    if not w.shape[3] or channels % w.shape[3] or w.shape[0] % max(channels // w.shape[3], 1):
        raise node.refuse(f"weights of shape {w.shape} for {channels} channels", "export the model again")
    groups = channels // w.shape[3]
    window = window_of(node, x.record.shape[1:3], w.shape[1:3])
    return _convolved(node, x, weights, w.transpose(0, 3, 1, 2), groups, window)


@operator("DEPTHWISE_CONV_2D", version=7)
def depthwise_conv_2d(node: TfliteNode) -> Any:
    """Weights are 1, H, W, O; output channel ``c * multiplier + m`` reads input channel c."""
    x, weights = node.input(0), node.input(1)
    _check_rank(node, x, weights)
    w = node.constant(1)
    channels = x.record.shape[3]
    if w.shape[0] != 1 or not channels or w.shape[3] % channels:
        raise node.refuse(f"weights of shape {w.shape} for {channels} channels", "export the model again")
    window = window_of(node, x.record.shape[1:3], w.shape[1:3])
    return _convolved(node, x, weights, w.transpose(3, 0, 1, 2), channels, window)


def _check_rank(node: TfliteNode, x: TfliteValue, weights: TfliteValue) -> None:
    if len(x.record.shape) != 4 or len(weights.record.shape) != 4:
        raise node.refuse(
            f"an image of shape {x.record.shape} and weights of shape {weights.record.shape}",
            "give both four axes",
        )


def _convolved(
    node: TfliteNode, x: TfliteValue, weights: TfliteValue, w: Array, groups: int, window: SlidingWindow
) -> Any:
    """A convolution with weights O, I, H, W."""

    def sums(image: Tensor, kernel: Tensor, dtype: Any) -> Tensor:
        found: Tensor = image.permute(0, 3, 1, 2).conv2d(
            kernel,
            groups=groups,
            stride=window.stride,
            dilation=window.dilation,
            padding=window.padding,
            dtype=dtype,
        )
        return found.permute(0, 2, 3, 1)

    padded = window.is_padded
    per_group = w.shape[0] // groups
    reads = np.arange(w.shape[0])[:, None] // per_group * w.shape[1] + np.arange(w.shape[1])
    return _layer(node, x, weights, w, sums, reads, padded)


@operator("TRANSPOSE_CONV", version=5)
def transpose_conv(node: TfliteNode) -> Any:
    """Each element is spread over a window; inputs are the size, weights O, H, W, I, the image and the bias."""
    weights, x = node.input(1), node.input(2)
    _check_rank(node, x, weights)
    w, size = node.constant(1), node.output.shape
    stride = int(node.option("StrideH")), int(node.option("StrideW"))
    if len(size) != 4 or x.record.shape[3] != w.shape[3] or size[3] != w.shape[0] or min(stride) < 1:
        raise node.refuse(
            f"weights of shape {w.shape} for {x.record.shape} to {size}", "export the model again"
        )
    cuts: list[tuple[int, int]] = []
    for axis in (0, 1):
        taps, out = w.shape[1 + axis], size[1 + axis]
        # The padding of the convolution that goes the other way.
        total = 0
        if not node.option("Padding"):
            total = max((-(-out // stride[axis]) - 1) * stride[axis] + taps - out, 0)
        cuts.append((total // 2, total // 2 + out))

    def sums(image: Tensor, kernel: Tensor, dtype: Any) -> Tensor:
        # conv_transpose2d has no type of the sums; products of int64 are made narrow again by their bounds.
        image, kernel = (t if dtype is None else t.cast(dtype) for t in (image, kernel))
        full = image.permute(0, 3, 1, 2).conv_transpose2d(kernel.permute(1, 0, 2, 3), stride=stride)
        for axis, (start, end) in zip((2, 3), cuts, strict=True):
            # A result that is larger than all windows has zeros at its end.
            room: list[Any] = [None] * 4
            room[axis] = (0, max(end - int(full.shape[axis]), 0))
            cut: list[Any] = [None] * 4
            cut[axis] = (start, end)
            full = full.pad(tuple(room)).shrink(tuple(cut))
        found: Tensor = full.permute(0, 2, 3, 1)
        return found

    matrix = w.transpose(0, 3, 1, 2)
    reads = np.broadcast_to(np.arange(w.shape[3]), matrix.shape[:2])
    return _layer(node, x, weights, matrix, sums, reads, True, bias_place=3)


@operator("FULLY_CONNECTED", version=13)
def fully_connected(node: TfliteNode) -> Any:
    """Weights are O, I; all axes of the input but those of I are rows."""
    x, weights = node.input(0), node.input(1)
    if node.record.options.get("WeightsFormat"):
        raise node.refuse("weights in a shuffled format", "convert the model without it")
    w = node.constant(1)
    if w.ndim != 2 or not w.shape[1] or math.prod(x.record.shape) % w.shape[1]:
        raise node.refuse(f"weights of shape {w.shape} for {x.record.shape}", "export the model again")
    rows = math.prod(x.record.shape) // w.shape[1]

    def sums(vector: Tensor, matrix: Tensor, dtype: Any) -> Tensor:
        found: Tensor = vector.reshape(rows, w.shape[1]).matmul(matrix.transpose(), dtype=dtype)
        return found

    reads = np.broadcast_to(np.arange(w.shape[1]), w.shape)
    if x.record.shape[-1:] != w.shape[1:] and x.bounds is not None and x.bounds.low.ndim:
        repeats = w.shape[1] // x.record.shape[-1] if w.shape[1] % x.record.shape[-1] == 0 else 0
        reads = reads % x.record.shape[-1] if repeats else reads * 0
        if not repeats:
            low, high = x.bounds.ends
            x = TfliteValue(x.record, x.made, x.array, Bounds(np.array(low), np.array(high)))
    return _layer(node, x, weights, w, sums, reads, False)


def _layer(
    node: TfliteNode,
    x: TfliteValue,
    weights: TfliteValue,
    w: Array,
    sums: Any,
    reads: Array,
    padded: bool,
    bias_place: int = 2,
) -> Any:
    """Codes or numbers of a layer; `reads` are the input channels of each row of weights (O, I)."""
    count = len(w)
    bias = node.constant(bias_place).reshape(-1) if node.has(bias_place) else None
    if bias is not None and len(bias) != count:
        raise node.refuse(f"a bias of {len(bias)} elements for {count} channels", "export the model again")
    kind, shape = x.record.kind, node.output.shape
    if kind == "FLOAT32" and node.output.kind == "FLOAT32":
        matrix = _float_weights(node, weights, w)
        number = sums(x.tensor, node.keep("weights", matrix, dtypes.float32), None)
        if bias is not None and np.any(bias):
            number = number + node.keep("bias", bias.astype(np.float32), dtypes.float32)
        return activated(node, number).reshape(shape)
    if weights.record.kind not in ("INT8", "INT4") or not node.is_codes(x, wide=True):
        raise node.wrong_types({kind, weights.record.kind, node.output.kind})
    if weights.record.scale.size not in (1, count):
        raise node.refuse(f"{weights.record.scale.size} scales of weights", "quantize the model again")
    # TFLM chooses the rounding of int16 activations by the type of the bias.
    is_wide = kind == "INT16" and (node.name != "CONV_2D" or (bias is not None and bias.dtype == np.int64))
    if bias is not None and bias.dtype != (np.int64 if is_wide else np.int32):
        raise node.refuse(f"a bias of {bias.dtype} for activations of {kind}", "quantize the model again")
    w = _without_zero_point(node, weights, w)
    s_in, (s_out, zero) = node.scale_of(x), node.out_quantization()
    reals = float(s_in) * weights.record.scale.astype(np.float64) / float(s_out)
    rows = w.astype(np.int64).reshape(count, w.shape[1], -1)
    offset = np.zeros(count, np.int64) if bias is None else bias.astype(np.int64)
    first, last = _bounds(x, rows, reads, padded)
    first, last = first + offset, last + offset
    wraps = is_wide and max(np.abs(first).max(), np.abs(last).max(), np.abs(offset).max()) >= 1 << 31
    total = dtypes.int64 if wraps else None
    kept = dtypes.int8 if w.dtype == np.int8 else dtypes.int16
    number = sums(x.steps(), node.keep("weights", w, kept).cast(dtypes.int32), total)
    if np.any(offset):
        number = number + node.keep("bias", offset, total or dtypes.int32)
    if is_wide:
        if node.name == "FULLY_CONNECTED":
            node.micro_only()
        reals = np.broadcast_to(reals, count)
        found, bounds = wide_codes(node, number, reals, first, last, node.limits(), dtypes.int16)
        return TfliteValue(node.output, found.reshape(shape), None, bounds)
    if node.name == "FULLY_CONNECTED" and not node.is_micro:
        return _rounded_once(node, number, np.broadcast_to(reals, count), first, last)
    found, bounds = requantized(
        node,
        number,
        np.broadcast_to(reals, count),
        first,
        last,
        zero,
        node.limits(),
        dtype_of(node.output.kind),
    )
    return TfliteValue(node.output, found.reshape(shape), None, bounds)


def _without_zero_point(node: TfliteNode, weights: TfliteValue, w: Array) -> Array:
    """Weights less their zero point, which converters do not write: TFLM ignores it in convolutions."""
    zero = weights.record.zero
    if not np.any(zero) or node.name in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        return w
    if node.name != "FULLY_CONNECTED" or zero.size > 1:
        raise node.refuse(f"weights with the zero point {zero[zero != 0][0]}", "quantize them symmetrically")
    return np.asarray(w.astype(np.int16) - zero[0], np.int16)


def _rounded_once(node: TfliteNode, sums: Tensor, reals: Array, first: Array, last: Array) -> TfliteValue:
    """Codes of LiteRT's reference kernel: a product in float64, halves away from zero."""
    _, zero = node.out_quantization()
    limits = node.limits()

    def code(rows: slice, total: Array) -> Array:
        return clip(nearest(total * reals[rows, None]) + zero, *limits)

    found = to_codes(node, sums, code, reals, first, last, limits, dtype_of(node.output.kind))
    if found is None:
        raise node.refuse("no multiplier gives its codes", "use rounding='tflite-micro'")
    return TfliteValue(node.output, found[0].reshape(node.output.shape), None, found[1])


def _bounds(x: TfliteValue, rows: Array, reads: Array, padded: bool) -> tuple[Array, Array]:
    """Smallest and largest sum of each row of weights (O, I, taps)."""
    codes = x.codes.with_code(x.zero) if padded else x.codes
    low, high = (
        (v[reads] if v.ndim else np.broadcast_to(v, reads.shape))[:, :, None] - x.zero
        for v in (codes.low, codes.high)
    )
    first = np.where(rows > 0, rows * low, rows * high).sum((1, 2))
    last = np.where(rows > 0, rows * high, rows * low).sum((1, 2))
    return first, last


def _float_weights(node: TfliteNode, weights: TfliteValue, w: Array) -> Array:
    """Weights in float32; codes are multiplied by their scales here."""
    if weights.record.kind == "FLOAT32":
        return w
    if weights.record.kind not in ("INT8", "INT4", "UINT8") or not weights.record.scale.size:
        raise node.wrong_types({weights.record.kind})
    node.contents.notes.append(
        f"{node.output.label} ({node.name}): weights are dequantized; TensorFlow Lite quantizes its input in each run"
    )
    scale, zero = (
        v if v.size == 1 else v.reshape(-1, *(1,) * (w.ndim - 1))
        for v in (weights.record.scale, weights.record.zero)
    )
    return np.asarray((w.astype(np.int64) - zero).astype(np.float32) * scale, np.float32)
