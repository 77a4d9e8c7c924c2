"""Convolutions of any rank, exact for integers and with exact products for half."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.operators.arithmetic import constant, divide, wide
from tg2hdl_backend.onnx.tensors import sizes_of

__all__ = [
    "average_of_windows",
    "check_padding",
    "conv",
    "gemm",
    "global_lp_pool",
    "lp_pool",
    "matmul",
    "window_padding",
]


_UNLIKE_ONNX = "for which ONNX Runtime does not pad as ONNX says"
_PADS = "write the padding as the attribute pads"


def window_padding(
    node: OnnxNode,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[tuple[int, int]]:
    """Elements before and after each axis.

    Parameters
    ----------
    node : OnnxNode
        With the attributes ``auto_pad`` and ``pads``.
    sizes : sequence of int
        Elements of each axis of the image.
    kernel, strides, dilations : sequence of int
        Elements, for each axis.

    Raises
    ------
    UnsupportedError
        For ``auto_pad`` where ONNX Runtime does not pad as ONNX says: it leaves dilations out of the padding of pools,
        and crops where windows leave out elements.
    """
    rank, mode = len(kernel), node.attribute("auto_pad", "NOTSET")
    pads = node.attribute("pads") or [0] * (2 * rank)
    if mode in ("NOTSET", ""):
        return [(pads[n], pads[n + rank]) for n in range(rank)]
    if mode == "VALID":
        return [(0, 0)] * rank
    axes = list(zip(sizes, kernel, strides, dilations, strict=True))
    totals = [(-(-size // s) - 1) * s + (k - 1) * d + 1 - size for size, k, s, d in axes]
    is_pool = node.op_type.endswith("Pool")
    if is_pool and any(k > 1 and d > 1 for _, k, _, d in axes):
        raise node.unsupported(f"auto_pad={mode} with dilations, {_UNLIKE_ONNX}", _PADS)
    if min(totals, default=0) < (0 if is_pool else -2):
        raise node.unsupported(f"auto_pad={mode} with strides beyond the windows, {_UNLIKE_ONNX}", _PADS)
    found = []
    for total in totals:
        small, large = max(total, 0) // 2, max(total, 0) - max(total, 0) // 2
        found.append((small, large) if mode == "SAME_UPPER" else (large, small))
    return found


def conv(node: OnnxNode, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    """Cross-correlation with padding, strides, dilations and groups.

    Parameters
    ----------
    node, x, w, bias
        The node and its inputs, as ONNX defines `Conv`.
    """
    rank, dtype = w.ndim - 2, x.dtype
    strides, dilations = node.attribute("strides") or [1] * rank, node.attribute("dilations") or [1] * rank
    padding = window_padding(node, sizes_of(x)[2:], sizes_of(w)[2:], strides, dilations)
    flat = tuple(p for pair in reversed(padding) for p in pair)
    options: dict[str, Any] = {
        "groups": node.attribute("group", 1),
        "stride": tuple(strides),
        "dilation": tuple(dilations),
        "padding": flat,
    }
    return wide(x).conv2d(wide(w), None if bias is None else wide(bias), **options).cast(dtype)


def matmul(node: OnnxNode, a: Tensor, b: Tensor) -> Tensor:
    """Matrix product.

    Parameters
    ----------
    node, a, b
        The node and its inputs, as ONNX defines `MatMul`.
    """
    return wide(a).matmul(wide(b)).cast(a.dtype)


def gemm(node: OnnxNode, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    """``alpha * A @ B + beta * C``.

    Parameters
    ----------
    node, a, b, c
        The node and its inputs, as ONNX defines `Gemm`.
    """
    left = wide(a).transpose(0, 1) if node.attribute("transA", 0) else wide(a)
    right = wide(b).transpose(0, 1) if node.attribute("transB", 0) else wide(b)
    result = left @ right
    alpha, beta = node.attribute("alpha", 1.0), node.attribute("beta", 1.0)
    result = result if alpha == 1 else result * alpha
    if c is not None:
        result = result + (wide(c) if beta == 1 else wide(c) * beta)
    return result.cast(a.dtype)


class _PaddedWindows(NamedTuple):
    """Windows in the last axes, padded with zeros, and how many elements of the data each has."""

    tensor: Tensor
    elements: npt.NDArray[np.float32]


def _windows(node: OnnxNode, x: Tensor) -> _PaddedWindows:
    kernel = node.attribute("kernel_shape")
    rank, sizes = len(kernel), sizes_of(x)[2:]
    strides, dilations = node.attribute("strides") or [1] * rank, node.attribute("dilations") or [1] * rank
    padding = window_padding(node, sizes, kernel, strides, dilations)
    axes = list(zip(sizes, kernel, strides, dilations, padding, strict=True))
    if node.attribute("ceil_mode", 0):
        padding = [
            (before, after + _beyond(size + before + after, k, s, d, before + size))
            for size, k, s, d, (before, after) in axes
        ]
    padded = x.pad(((0, 0), (0, 0), *padding))
    windows = padded._pool(tuple(kernel), tuple(strides), tuple(dilations))
    elements = np.ones((), np.float32)
    for (size, k, s, d, (before, _)), count in zip(axes, sizes_of(windows)[2:], strict=False):
        places = np.arange(count)[:, None] * s - before + np.arange(k) * d
        elements = np.multiply.outer(elements, ((places >= 0) & (places < size)).sum(1, dtype=np.float32))
    return _PaddedWindows(windows, elements)


def check_padding(node: OnnxNode, x: Tensor) -> None:
    """Refuse a pool as `window_padding` does.

    Parameters
    ----------
    node : OnnxNode
        With the attributes of the windows.
    x : Tensor
        Image, channels first.
    """
    kernel = node.attribute("kernel_shape")
    ones = [1] * len(kernel)
    strides, dilations = node.attribute("strides") or ones, node.attribute("dilations") or ones
    window_padding(node, sizes_of(x)[2:], kernel, strides, dilations)


def average_of_windows(node: OnnxNode, x: Tensor) -> Tensor:
    """Mean of each window; padding counts only where it is asked for.

    Parameters
    ----------
    node : OnnxNode
        With the attributes of the windows.
    x : Tensor
        Image, channels first.
    """
    windows, elements = _windows(node, x)
    total = windows.sum(tuple(range(2 - x.ndim, 0)))
    size = float(np.prod(node.attribute("kernel_shape")))
    if node.attribute("count_include_pad", 0) or (elements == size).all():
        return divide(total, size)
    return divide(total, constant(node, elements))


def lp_pool(node: OnnxNode, x: Tensor) -> Tensor:
    """The p-norm of each window.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `LpPool`.
    """
    return _norm(_windows(node, x.abs()).tensor, node.attribute("p", 2), tuple(range(2 - x.ndim, 0)), False)


def _beyond(length: int, kernel: int, stride: int, dilation: int, data: int) -> int:
    """Elements that ceil_mode adds, so that the last window that begins in the data or before it is whole."""
    span = (kernel - 1) * dilation + 1
    last = -(-(length - span) // stride) * stride
    last -= stride if last >= data else 0
    return max(0, last + span - length)


def _norm(x: Tensor, p: int, axes: tuple[int, ...], keepdim: bool) -> Tensor:
    if p == 1:
        return x.sum(axes, keepdim=keepdim)
    if p == 2:
        return (x * x).sum(axes, keepdim=keepdim).sqrt()
    return x.pow(p).sum(axes, keepdim=keepdim).pow(1 / p)


def global_lp_pool(node: OnnxNode, x: Tensor) -> Tensor:
    """The p-norm of each channel.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `GlobalLpPool`.
    """
    return _norm(x.abs(), node.attribute("p", 2), tuple(range(2, x.ndim)), True)
