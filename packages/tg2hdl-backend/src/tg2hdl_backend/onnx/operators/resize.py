"""Resizing: indices and weights of each axis are tables, computed once by ONNX's reference implementation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import helper
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_backend.onnx.fold import fold_node
from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.operators.arithmetic import constant
from tg2hdl_backend.onnx.tensors import sizes_of
from tg2hdl_backend.onnx.tinygrad_operators import tinygrad_operator

__all__ = ["max_unpool", "resize", "resize_10"]


def resize(node: OnnxNode, x: Tensor, roi: Any = None, scales: Any = None, sizes: Any = None) -> Tensor:
    """Interpolation along one axis after the other.

    Parameters
    ----------
    node, x, roi, scales, sizes
        The node and its inputs, as ONNX defines `Resize`.
    """
    if node.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        own = tinygrad_operator("Resize", "", node.version)
        if own is None:
            raise node.unsupported("keep_aspect_ratio_policy", "give all sizes")
        result: Tensor = own(
            node, x, *(None if v is None or not np.size(v) else v for v in (roi, scales, sizes))
        )
        return result
    axes = [int(a) % x.ndim for a in node.attribute("axes") or range(x.ndim)]
    keep = {
        k: v for k, v in node.attributes.items() if k not in ("axes", "keep_aspect_ratio_policy", "antialias")
    }
    if node.attribute("antialias"):
        keep["antialias"] = node.attribute("antialias")
    dtype = x.dtype
    if dtypes.is_int(dtype) and node.attribute("mode", "nearest") != "nearest":
        x = x.cast(dtypes.float32)
    for n, axis in enumerate(axes):
        size = None if sizes is None or not np.size(sizes) else int(sizes[n])
        scale = None if size is not None else float(scales[n])
        crop = None if roi is None or not np.size(roi) else (roi[n], roi[n + len(axes)])
        cropped = (
            crop is not None and node.attribute("coordinate_transformation_mode") == "tf_crop_and_resize"
        )
        if not cropped and (size == x.shape[axis] or scale == 1.0):
            continue
        nearest = None if cropped else _nearest(node, sizes_of(x)[axis], size, scale)
        if nearest is not None:
            x = x[(*(slice(None),) * axis, constant(node, nearest))]
            continue
        matrix, offset = _interpolation(node, keep, sizes_of(x)[axis], size, scale, crop)
        x = _along(node, x, axis, matrix, offset)
    if dtypes.is_int(dtype) and x.dtype != dtype:
        x = x.clamp(dtype.min, dtype.max)
    return x.cast(dtype)


def _nearest(
    node: OnnxNode, length: int, size: int | None, scale: float | None
) -> npt.NDArray[np.int32] | None:
    """Indices of the nearest elements; None for another mode.

    Positions are floats of 32 bits, as in ONNX Runtime and PyTorch: with exact ones, a scale such as 0.6, which is a
    little more in the file, moves a position that lies on an element to the one before it.
    """
    if node.attribute("mode", "nearest") != "nearest":
        return None
    half = np.float32(0.5)
    factor = np.float32(scale) if size is None else np.float32(size) / np.float32(length)
    count = size if size is not None else int(np.floor(np.float32(length) * factor))
    at = np.arange(count, dtype=np.float32)
    moved = (at + half) / factor - half
    border = np.float32(length) / 2 * (1 - np.float32(count) / (factor * np.float32(length)))
    known = {
        "half_pixel": moved,
        "half_pixel_symmetric": border + (at + 0.5) / np.float64(factor) - 0.5,
        "pytorch_half_pixel": moved if count > 1 else 0 * at,
        "asymmetric": at / factor,
        "align_corners": at * np.float32(length - 1) / np.float32(count - 1) if count > 1 else 0 * at,
        "tf_half_pixel_for_nn": (at + half) / factor,
    }
    position = known.get(node.attribute("coordinate_transformation_mode", "half_pixel"))
    rounding = node.attribute("nearest_mode", "round_prefer_floor")
    if position is None or rounding not in _ROUNDINGS:
        return None
    found = np.clip(_ROUNDINGS[rounding](position.astype(np.float32)), 0, length - 1)
    return np.asarray(found, np.int32)


def _to_nearest(at: npt.NDArray[np.float32], up: bool) -> npt.NDArray[np.float32]:
    """Nearest whole numbers; as in ONNX Runtime, up to 1e-6 from the middle counts as the middle."""
    low = np.floor(at)
    distance = at - low - np.float32(0.5)
    return low + np.where(np.abs(distance) < 1e-6, up, distance > 0)


_ROUNDINGS: dict[str, Callable[[Any], Any]] = {
    "round_prefer_floor": lambda at: _to_nearest(at, False),
    "round_prefer_ceil": lambda at: _to_nearest(at, True),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _interpolation(
    node: OnnxNode, attributes: dict[str, Any], length: int, size: int | None, scale: float | None, crop: Any
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Matrix (outputs, inputs) and offset of the resizing of one axis."""
    area = None if crop is None else np.array([0, crop[0], 1, crop[1]], np.float32)
    rows = np.concatenate([np.zeros((1, length), np.float32), np.eye(length, dtype=np.float32)])
    factor = None if scale is None else np.array([1, scale], np.float32)
    target = None if size is None else np.array([len(rows), size], np.int64)
    given = [rows, area, factor, target]
    names = [n if v is not None else "" for n, v in zip(("x", "roi", "scales", "sizes"), given, strict=True)]
    call = helper.make_node("Resize", names, ["y"], **attributes)
    result = fold_node(call, max(node.version, 11), given, node.where)[0]
    offset = result[0]
    # A constant beyond the border is independent of the input.
    return np.ascontiguousarray((result[1:] - offset).T), offset


def _taps(matrix: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Indices and weights (outputs, most weights of an output) of the elements whose weight is not 0.

    0 times NaN is NaN, so a row of fewer has its first element more than once, with parts of its weight whose sum in
    this order is exact: an eighth, an eighth, a quarter and a half.
    """
    counts = (matrix != 0).sum(1)
    order = np.zeros((len(matrix), max(1, int(counts.max()))), np.int32)
    weights = np.zeros(order.shape, np.float32)
    for row in np.flatnonzero(counts):
        places, more = np.flatnonzero(matrix[row]), order.shape[1] - counts[row]
        parts = [0.5**more, *(0.5**n for n in range(more, 0, -1)), *[1.0] * (counts[row] - 1)]
        order[row] = [*places[:1]] * more + [*places]
        weights[row] = matrix[row][order[row]] * parts
    return order, weights


def _along(node: OnnxNode, x: Tensor, axis: int, matrix: Any, offset: Any) -> Tensor:
    order, weights = _taps(matrix)
    taps = order.shape[1]
    at = (slice(None),) * axis
    shape = [-1 if n == axis else 1 for n in range(x.ndim)]
    if taps == 1 and (weights == 1).all() and not offset.any():
        return x[(*at, constant(node, order[:, 0]))]
    real = x.cast(dtypes.float32)
    total = None
    for tap in range(taps):
        part = real[(*at, constant(node, order[:, tap]))] * constant(node, weights[:, tap]).reshape(shape)
        total = part if total is None else total + part
    assert total is not None
    total = total + constant(node, offset).reshape(shape) if offset.any() else total
    empty = (matrix == 0).all(1)
    if empty.any():
        total = constant(node, empty).reshape(shape).where(constant(node, offset).reshape(shape), total)
    return total.cast(x.dtype)


def resize_10(node: OnnxNode, x: Tensor, scales: Any = None) -> Tensor:
    """Version 10 and Upsample: asymmetric coordinates, rounded down, or up where an axis shrinks.

    Parameters
    ----------
    node, x, scales
        The node and its inputs, as ONNX defines `Upsample` and `Resize`.
    """
    given = np.asarray(node.attribute("scales") if scales is None else scales, np.float32)
    mode = node.attribute("mode", "nearest")
    for axis, scale in enumerate(given):
        options = {"mode": mode, "coordinate_transformation_mode": "asymmetric", "axes": [axis]}
        if mode == "nearest":
            options["nearest_mode"] = "ceil" if scale < 1 else "floor"
        plain = OnnxNode("Resize", "", 18, node.name, options, node.outputs, node.known_inputs)
        x = resize(plain, x, None, np.array([scale]))
    return x


def max_unpool(node: OnnxNode, x: Tensor, indices: Tensor, shape: Any = None) -> Tensor:
    """Values at the positions of the maxima; a larger output is padded with zeros at the end of each axis.

    Parameters
    ----------
    node, x, indices, shape
        The node and its inputs, as ONNX defines `MaxUnpool`.
    """
    kernel = node.attribute("kernel_shape")
    rank = len(kernel)
    strides, pads = node.attribute("strides") or [1] * rank, node.attribute("pads") or [0] * (2 * rank)
    sizes = [(x.shape[2 + n] - 1) * strides[n] - pads[n] - pads[n + rank] + kernel[n] for n in range(rank)]
    count = int(np.prod(sizes))
    places = indices.reshape(-1, 1, int(np.prod(sizes_of(x)[2:]))).cast(dtypes.int32)
    # Indices count through the whole tensor; each channel has its own part.
    channels = Tensor.arange(places.shape[0], dtype=dtypes.int32).reshape(-1, 1, 1)
    local = places - (channels * count if _counts_through(node, x) else 0)
    hit = local == Tensor.arange(count, dtype=dtypes.int32).reshape(1, -1, 1)
    values = x.reshape(-1, 1, places.shape[2])
    result = hit.where(values, 0).sum(-1).cast(x.dtype).reshape(*x.shape[:2], *sizes)
    if shape is None:
        return result
    wanted = [int(s) for s in shape][2:]
    return result.pad(((0, 0), (0, 0), *((0, w - s) for w, s in zip(wanted, sizes, strict=True))))


def _counts_through(node: OnnxNode, x: Tensor) -> bool:
    batch, channels = sizes_of(x)[:2]
    return batch * channels > 1
