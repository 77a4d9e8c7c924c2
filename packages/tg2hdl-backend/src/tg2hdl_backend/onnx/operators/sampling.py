"""Operators that read an image between its pixels, at places that depend on data."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.operators.arithmetic import constant, wide
from tg2hdl_backend.onnx.operators.convolution import window_padding
from tg2hdl_backend.onnx.tensors import sizes_of

__all__ = ["deform_conv", "grid_sample", "roi_align"]

Taps = Sequence[tuple[Tensor, Tensor | float]]
"""Places along one axis, which are whole numbers, and their weights."""


def _inside(place: Tensor, size: int) -> Tensor:
    return (place >= 0) & (place <= size - 1)


def _weighted(x: Tensor, base: Tensor, axes: Sequence[Taps], zeros: bool) -> list[Tensor]:
    """Weighted pixels of each combination of taps.

    Parameters
    ----------
    x : Tensor
        Of shape (batch, channels, *sizes).
    base : Tensor
        Place of each plane in the flat image, to broadcast with the taps.
    zeros : bool
        Whether pixels outside are zero; otherwise all taps are inside.
    """
    sizes, flat = sizes_of(x)[2:], x.reshape(-1)
    found = []
    for taps in itertools.product(*axes):
        index, weight, inside = base, None, None
        for (place, factor), size, stride in zip(taps, sizes, _strides(sizes), strict=True):
            valid = _inside(place, size)
            inside = valid if inside is None else inside & valid
            weight = factor if weight is None else weight * factor
            index = index + place.clamp(0, size - 1).cast(dtypes.int32) * stride
        value = flat[index]
        assert weight is not None
        assert inside is not None
        value = inside.where(value, 0) if zeros else value
        found.append(value if isinstance(weight, float) else value * weight)
    return found


def _strides(sizes: Sequence[int]) -> list[int]:
    return [int(np.prod(sizes[n + 1 :], dtype=np.int64)) for n in range(len(sizes))]


def _total(parts: Sequence[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _planes(x: Tensor, batch: Tensor | None = None) -> Tensor:
    """Place of each plane in the flat image: (batch, channels, 1)."""
    n, channels, *sizes = sizes_of(x)
    rows = Tensor.arange(n, dtype=dtypes.int32) if batch is None else batch.cast(dtypes.int32)
    planes = rows.reshape(-1, 1) * channels + Tensor.arange(channels, dtype=dtypes.int32).reshape(1, -1)
    return (planes * int(np.prod(sizes))).unsqueeze(-1)


def _linear(place: Tensor) -> Taps:
    low = place.floor()
    return [(low, 1 - (place - low)), (low + 1, place - low)]


def _cubic(place: Tensor) -> Taps:
    """Keys' kernel with a = -3/4."""
    a, low = -0.75, place.floor()
    t = place - low

    def near(d: Tensor) -> Tensor:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Tensor) -> Tensor:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [(low - 1, far(t + 1)), (low, near(t)), (low + 1, near(1 - t)), (low + 2, far(2 - t))]


def _reflected(place: Tensor, low: float, high: float) -> Tensor:
    """Place mirrored at both borders as often as needed."""
    span = high - low
    if not span:
        return place.const_like(low)
    distance = place - low
    folded = distance - (distance * (0.5 / span)).floor() * (2 * span)
    return low + folded.minimum(2 * span - folded)


def grid_sample(node: OnnxNode, x: Tensor, grid: Tensor) -> Tensor:
    """Pixels at the places of a grid from -1 to 1.

    Parameters
    ----------
    node, x, grid
        The node and its inputs, as ONNX defines `GridSample`.
    """
    mode, padding = node.attribute("mode", "linear"), node.attribute("padding_mode", "zeros")
    align, sizes = bool(node.attribute("align_corners", 0)), sizes_of(x)[2:]
    kernels: dict[str, Callable[[Tensor], Taps]] = {
        "linear": _linear,
        "bilinear": _linear,
        "cubic": _cubic,
        "bicubic": _cubic,
        "nearest": lambda p: [(p, 1.0)],
    }
    if mode not in kernels or padding not in ("zeros", "border", "reflection"):
        raise node.unsupported(f"mode {mode} with padding {padding}", "use linear, cubic or nearest")
    axes: list[Taps] = []
    for axis, size in enumerate(sizes):
        g = wide(grid[..., len(sizes) - 1 - axis]).reshape(grid.shape[0], 1, -1)
        place = (g + 1) * ((size - 1) / 2) if align else ((g + 1) * size - 1) / 2
        low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
        if mode == "nearest":
            place = place.round()
        if padding == "border" and "cubic" not in mode:
            place = place.clamp(0, size - 1)
        taps = kernels[mode](place)
        if padding == "border":
            taps = [(p.clamp(0, size - 1), w) for p, w in taps]
        elif padding == "reflection":
            if "cubic" not in mode:
                taps = kernels[mode](_reflected(place, low, high))
            # A pixel is a whole number: half a pixel beyond the border counts as the border.
            taps = [(_reflected(p, low, high).round().clamp(0, size - 1), w) for p, w in taps]
        axes.append(taps)
    result = _total(_weighted(wide(x), _planes(x), axes, padding == "zeros"))
    return result.cast(x.dtype).reshape(*x.shape[:2], *grid.shape[1:-1])


def roi_align(node: OnnxNode, x: Tensor, rois: Tensor, batch: Tensor) -> Tensor:
    """Means or maxima of samples in the bins of each region.

    Parameters
    ----------
    node, x, rois, batch
        The node and its inputs, as ONNX defines `RoiAlign`.
    """
    height, width = node.attribute("output_height", 1), node.attribute("output_width", 1)
    ratio, mode = node.attribute("sampling_ratio", 0), node.attribute("mode", "avg")
    if ratio <= 0:
        raise node.unsupported(
            "sampling_ratio 0 depends on the regions", "export with a fixed sampling_ratio"
        )
    half = (
        node.attribute("coordinate_transformation_mode", "half_pixel") == "half_pixel" and node.version >= 16
    )
    scaled = wide(rois) * node.attribute("spatial_scale", 1.0) - (0.5 if half else 0.0)
    axes: list[Taps] = []
    outside: Tensor | None = None
    for axis, (bins, size) in enumerate(zip((height, width), sizes_of(x)[2:], strict=True)):
        start, length = scaled[:, 1 - axis], scaled[:, 3 - axis] - scaled[:, 1 - axis]
        step = (length if half else length.maximum(1.0)) / bins
        offsets = constant(node, (np.arange(bins * ratio) + 0.5).astype(np.float32) / np.float32(ratio))
        place = start.reshape(-1, 1) + step.reshape(-1, 1) * offsets
        # Every row of bins with every column.
        shape = (place.shape[0], 1, -1, 1) if axis == 0 else (place.shape[0], 1, 1, -1)
        place = place.reshape(shape).expand(-1, 1, height * ratio, width * ratio).flatten(2)
        beyond = (place < -1) | (place > size)
        outside = beyond if outside is None else outside | beyond
        axes.append([(p.minimum(size - 1), w) for p, w in _linear(place.clamp(0, size - 1))])
    assert outside is not None
    parts = _weighted(wide(x), _planes(x, batch), axes, False)
    value = _total(parts)
    if mode == "max":
        # ONNX Runtime and ONNX's own tests take the largest weighted pixel.
        value = parts[0]
        for part in parts[1:]:
            value = value.maximum(part)
    samples = outside.where(0, value).reshape(rois.shape[0], x.shape[1], height, ratio, width, ratio)
    reduced = samples.max((3, 5)) if mode == "max" else samples.mean((3, 5))
    return reduced.cast(x.dtype)


def deform_conv(
    node: OnnxNode,
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Convolution whose taps are moved by offsets and scaled by a mask.

    Parameters
    ----------
    node, x, w, offset, bias, mask
        The node and its inputs, as ONNX defines `DeformConv`.
    """
    n, channels, *sizes = sizes_of(x)
    outputs, depth, *kernel = sizes_of(w)
    if len(sizes) != 2:
        raise node.unsupported(f"{len(sizes)} axes", "use images of two axes")
    strides, dilations = node.attribute("strides") or [1, 1], node.attribute("dilations") or [1, 1]
    padding = window_padding(node, sizes, kernel, strides, dilations)
    groups, parts = node.attribute("group", 1), node.attribute("offset_group", 1)
    out, taps = sizes_of(offset)[2:], int(np.prod(kernel))
    moves = wide(offset).reshape(n, parts, taps, 2, *out)
    axes: list[Taps] = []
    for axis in range(2):
        first = np.arange(out[axis]) * strides[axis] - padding[axis][0]
        tap = np.arange(taps) // kernel[1] if axis == 0 else np.arange(taps) % kernel[1]
        grid = (tap * dilations[axis]).reshape(-1, 1, 1) + first.reshape((-1, 1) if axis == 0 else (1, -1))
        place = moves[:, :, :, axis] + constant(node, grid.astype(np.float32))
        # The channels of a part share its offsets.
        place = place.reshape(n, parts, 1, -1).expand(n, parts, channels // parts, -1)
        axes.append(_linear(place.reshape(n, channels, -1)))
    columns = _total(_weighted(wide(x), _planes(x), axes, True)).reshape(n, channels, taps, *out)
    if mask is not None:
        factor = wide(mask).reshape(n, parts, 1, taps, *out).expand(n, parts, channels // parts, taps, *out)
        columns = columns * factor.reshape(columns.shape)
    # Written once, because every output channel reads all of them.
    rows = columns.contiguous().reshape(n, groups, depth * taps, -1)
    result = wide(w).reshape(1, groups, outputs // groups, depth * taps).matmul(rows)
    result = result.reshape(n, outputs, *out)
    return (result if bias is None else result + wide(bias).reshape(1, -1, 1, 1)).cast(x.dtype)
