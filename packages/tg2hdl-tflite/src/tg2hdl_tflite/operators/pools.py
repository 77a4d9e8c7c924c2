"""Windows without weights, and reductions over axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_tflite.arithmetic import clip, divided, mean_pair, scaled
from tg2hdl_tflite.node import TfliteNode, operator
from tg2hdl_tflite.operators.floats import activated
from tg2hdl_tflite.operators.sums import SlidingWindow, window_of
from tg2hdl_tflite.requantize import clipped, requantized, to_codes
from tg2hdl_tflite.value import Bounds, TfliteValue, dtype_of

__all__ = ["average_pool_2d", "max_pool_2d", "mean", "reduced", "total"]

Array = npt.NDArray[Any]


def _kernel(node: TfliteNode, x: TfliteValue) -> tuple[tuple[int, int], SlidingWindow]:
    if len(x.record.shape) != 4:
        raise node.refuse(f"an image of shape {x.record.shape}", "give it four axes")
    kernel = int(node.option("FilterHeight")), int(node.option("FilterWidth"))
    return kernel, window_of(node, x.record.shape[1:3], kernel)


def _sums(x: Tensor, kernel: tuple[int, int], window: SlidingWindow) -> Tensor:
    """Sum of each window."""
    if kernel == tuple(x.shape[1:3]) and not window.is_padded:
        return x.sum((1, 2), keepdim=True)
    image = x.permute(0, 3, 1, 2)
    channels = int(image.shape[1])
    ones = Tensor.ones(channels, 1, *kernel, dtype=x.dtype)
    found: Tensor = image.conv2d(ones, groups=channels, stride=window.stride, padding=window.padding)
    return found.permute(0, 2, 3, 1)


def _counts(size: tuple[int, ...], kernel: tuple[int, int], window: SlidingWindow) -> Array:
    """Elements of the image in each window, of shape (height, width, 1)."""
    counts = []
    for axis, before, after in ((0, *window.padding[2:]), (1, *window.padding[:2])):
        inside = np.pad(np.ones(size[axis], np.int64), (before, after))
        windows = np.lib.stride_tricks.sliding_window_view(inside, kernel[axis])
        counts.append(windows[:: window.stride[axis]].sum(-1))
    return np.asarray(counts[0][:, None, None] * counts[1][None, :, None])


def _between(x: TfliteValue, limits: tuple[int, int]) -> Bounds:
    """Bounds of results that lie between codes of their channel."""
    return Bounds(clip(x.codes.low, *limits), clip(x.codes.high, *limits))


@operator("AVERAGE_POOL_2D", version=3)
def average_pool_2d(node: TfliteNode) -> Any:
    """The sum of codes inside of the image by their count; halves away from zero of the code."""
    x = node.input(0)
    kernel, window = _kernel(node, x)
    counts = _counts(x.record.shape[1:3], kernel, window)
    if np.all(counts == counts[0, 0, 0]):
        counts = counts[:1, :1]
    if not node.is_codes(x, wide=True):
        number = _sums(x.tensor, kernel, window) / node.keep(
            "counts", counts.astype(np.float32), dtypes.float32
        )
        return activated(node, number)
    node.same_scales(x)
    low, high = x.codes.ends
    limits = node.limits()
    number = _sums(x.tensor.cast(dtypes.int32), kernel, window)
    flat = counts.reshape(-1)[:, None]

    def code(rows: slice, total: Array) -> Array:
        return clip(divided(total, flat[rows]), *limits)

    kind = dtype_of(node.output.kind)
    found = to_codes(node, number, code, 1 / counts, counts * low, counts * high, limits, kind)
    if found is None:
        raise node.refuse(f"windows of {counts.max()} elements", "use smaller windows")
    return TfliteValue(node.output, found[0], None, _between(x, limits))


@operator("MAX_POOL_2D", version=4)
def max_pool_2d(node: TfliteNode) -> Any:
    """The largest code inside of the image."""
    x = node.input(0)
    kernel, window = _kernel(node, x)
    is_codes = node.is_codes(x, wide=True)
    number = x.tensor.permute(0, 3, 1, 2).max_pool2d(kernel, window.stride, padding=window.padding)
    assert isinstance(number, Tensor)
    number = number.permute(0, 2, 3, 1)
    if not is_codes:
        return activated(node, number)
    node.same_scales(x)
    limits = node.limits()
    number = clipped(number, *limits, x.codes.ends).cast(dtype_of(node.output.kind))
    return TfliteValue(node.output, number, None, _between(x, limits))


def _axes(node: TfliteNode, x: TfliteValue) -> tuple[tuple[int, ...], bool]:
    rank = len(x.record.shape)
    axes = tuple(sorted(set(node.axes(1, rank)))) or tuple(range(rank))
    return axes, bool(node.option("KeepDims"))


@operator("MEAN", version=3)
def mean(node: TfliteNode) -> Any:
    """Sums of steps, with one factor for the scales and the count."""
    x = node.input(0)
    axes, _ = _axes(node, x)
    count = int(np.prod([x.record.shape[a] for a in axes]))
    if not count:
        raise node.refuse("the mean of 0 elements", "export the model again")
    if not node.is_codes(x, wide=True):
        return (x.tensor.sum(axes) * (1 / count)).reshape(node.output.shape)
    s_out, zero = node.out_quantization()
    real = float(node.scale_of(x)) / float(s_out)
    pair = mean_pair(real, count)
    low, high = (count * (end - x.zero) for end in x.codes.ends)
    limits = node.limits()

    def code(_: slice, total: Array) -> Array:
        return clip(scaled(total, pair) + zero, *limits)

    number = x.tensor.cast(dtypes.int32).sum(axes) - count * x.zero
    found = to_codes(node, number, code, real / count, low, high, limits, dtype_of(node.output.kind))
    if found is None:
        raise node.refuse(f"a mean of {count} elements", "take the mean of fewer elements")
    return TfliteValue(node.output, found[0].reshape(node.output.shape), None, found[1])


@operator("SUM", version=2)
def total(node: TfliteNode) -> Any:
    """Sums of steps, rounded as those of products."""
    x = node.input(0)
    axes, _ = _axes(node, x)
    if not node.is_codes(x, wide=True):
        return x.tensor.sum(axes).reshape(node.output.shape)
    count = int(np.prod([x.record.shape[a] for a in axes]))
    s_out, zero = node.out_quantization()
    real = float(node.scale_of(x)) / float(s_out)
    low, high = (count * (end - x.zero) for end in x.codes.ends)
    number = x.tensor.cast(dtypes.int32).sum(axes) - count * x.zero
    kind = dtype_of(node.output.kind)
    found, bounds = requantized(node, number, np.array(real), low, high, zero, node.limits(), kind)
    return TfliteValue(node.output, found.reshape(node.output.shape), None, bounds)


@operator("REDUCE_MAX", "REDUCE_MIN", version=3)
def reduced(node: TfliteNode) -> Any:
    """Of codes of one scale."""
    x = node.input(0)
    axes, _ = _axes(node, x)
    if node.is_codes(x, wide=True):
        node.same_scales(x)
    number = x.tensor.max(axes) if node.name == "REDUCE_MAX" else x.tensor.min(axes)
    return number.cast(dtype_of(node.output.kind)).reshape(node.output.shape)
