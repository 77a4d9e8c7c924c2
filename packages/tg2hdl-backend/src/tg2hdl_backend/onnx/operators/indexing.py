"""Operators that move, gather and scatter elements."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.operators.arithmetic import constant
from tg2hdl_backend.onnx.tensors import sizes_of

__all__ = ["col2im", "pad", "reverse_sequence", "scatter_nd", "space_to_depth", "tensor_scatter"]

_Reduction = Literal["sum", "prod", "mean", "amax", "amin"]
_REDUCTIONS: dict[str, _Reduction] = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def pad(node: OnnxNode, x: Tensor, pads: Any = None, value: Tensor | None = None, axes: Any = None) -> Tensor:
    """Padding, also negative; the value may depend on data.

    Parameters
    ----------
    node, x, pads, value, axes
        The node and its inputs, as ONNX defines `Pad`.
    """
    pads = node.attribute("pads", node.attribute("paddings")) if pads is None else pads.tolist()
    chosen = list(range(x.ndim)) if axes is None else [int(a) % x.ndim for a in np.atleast_1d(axes)]
    amounts = [(0, 0)] * x.ndim
    for n, axis in enumerate(chosen):
        amounts[axis] = (pads[n], pads[n + len(chosen)])
    mode = node.attribute("mode", "constant")
    if mode == "wrap":
        return _wrapped(x, amounts)
    if mode != "constant":
        flat = tuple(p for pair in reversed(amounts) for p in pair)
        return x.pad(flat, mode={"edge": "replicate", "wrap": "circular"}.get(mode, mode))
    cropped = x.shrink(
        tuple((max(0, -a), s - max(0, -b)) for (a, b), s in zip(amounts, x.shape, strict=True))
    )
    padding = tuple((max(0, a), max(0, b)) for a, b in amounts)
    fill = node.known(2) if value is not None else np.array(node.attribute("value", 0.0))
    if fill is not None:
        number = fill.reshape(()).item()
        return cropped.pad(padding, value=number) if number else cropped.pad(padding)
    assert value is not None
    inside = cropped.const_like(True).cast(dtypes.bool).pad(padding)
    return inside.where(cropped.pad(padding), value.reshape([1] * x.ndim).cast(x.dtype))


def _wrapped(x: Tensor, amounts: list[tuple[int, int]]) -> Tensor:
    """Padding by the tensor itself, as often as needed; negative amounts crop first."""
    x = x.shrink(tuple((max(0, -a), s - max(0, -b)) for (a, b), s in zip(amounts, sizes_of(x), strict=True)))
    for axis, (size, (before, after)) in enumerate(zip(sizes_of(x), amounts, strict=True)):
        before, after = max(0, before), max(0, after)
        copies = -(-before // size), -(-after // size)
        if not any(copies):
            continue
        first = copies[0] * size - before
        ends = [(0, s) for s in sizes_of(x)]
        ends[axis] = (first, first + before + size + after)
        x = x.repeat([sum(copies) + 1 if n == axis else 1 for n in range(x.ndim)]).shrink(tuple(ends))
    return x


def scatter_nd(node: OnnxNode, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Copy of `x` with updates at indices; the last update of an element wins.

    Parameters
    ----------
    node, x, indices, updates
        The node and its inputs, as ONNX defines `ScatterND`.
    """
    depth, reduction = sizes_of(indices)[-1], node.attribute("reduction", "none")
    sizes = sizes_of(x)
    rest = int(np.prod(sizes[depth:], dtype=np.int64))
    flat = indices.reshape(-1, depth).cast(dtypes.int32)
    position = flat[:, 0].const_like(0)
    for axis in range(depth):
        at = flat[:, axis]
        at = (at < 0).where(at + sizes[axis], at)
        position = position * sizes[axis] + at
    places = position.reshape(-1, 1).expand(-1, rest)
    source, rows = updates.reshape(-1, rest), x.reshape(-1, rest)
    if reduction == "none":
        return rows.scatter(0, places, source).reshape(x.shape)
    return rows.scatter_reduce(0, places, source, _REDUCTIONS[reduction]).cast(x.dtype).reshape(x.shape)


def tensor_scatter(node: OnnxNode, past: Tensor, update: Tensor, write: Tensor | None = None) -> Tensor:
    """A cache with new rows written at a position of each batch.

    Parameters
    ----------
    node, past, update, write
        The node and its inputs, as ONNX defines `TensorScatter`.
    """
    axis = node.attribute("axis", -2) % past.ndim
    length, new = past.shape[axis], update.shape[axis]
    start = Tensor.zeros(past.shape[0], dtype=dtypes.int32) if write is None else write.cast(dtypes.int32)
    shape = [1] * past.ndim
    shape[0] = sizes_of(past)[0]
    steps = Tensor.arange(new, dtype=dtypes.int32).reshape(
        [new if n == axis else 1 for n in range(past.ndim)]
    )
    places = start.reshape(shape) + steps
    if node.attribute("mode", "linear") == "circular":
        places = (places < length).where(places, places - length)
    return past.scatter(axis, places.expand(update.shape), update)


def reverse_sequence(node: OnnxNode, x: Tensor, lengths: Tensor) -> Tensor:
    """The first `lengths` elements of each row in reverse order.

    Parameters
    ----------
    node, x, lengths
        The node and its inputs, as ONNX defines `ReverseSequence`.
    """
    time, batch = node.attribute("time_axis", 0), node.attribute("batch_axis", 1)
    step = Tensor.arange(x.shape[time], dtype=dtypes.int32)
    step = step.reshape([-1 if n == time else 1 for n in range(x.ndim)])
    last = lengths.cast(dtypes.int32).reshape([-1 if n == batch else 1 for n in range(x.ndim)])
    return x.gather(time, (step < last).where(last - 1 - step, step).expand(x.shape))


def space_to_depth(node: OnnxNode, x: Tensor) -> Tensor:
    """Blocks of pixels become channels.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `SpaceToDepth`.
    """
    b = node.attribute("blocksize")
    order = "b (c h1 w1) h w" if node.attribute("mode", "DCR") == "CRD" else "b (h1 w1 c) h w"
    return x.rearrange(f"b c (h h1) (w w1) -> {order}", h1=b, w1=b)


def col2im(node: OnnxNode, x: Tensor, image: Any, block: Any) -> Tensor:
    """Sum of overlapping blocks.

    Parameters
    ----------
    node, x, image, block
        The node and its inputs, as ONNX defines `Col2Im`.
    """
    rank = len(image)
    image, block = [int(n) for n in image], [int(n) for n in block]
    strides, dilations = node.attribute("strides", [1] * rank), node.attribute("dilations", [1] * rank)
    pads = node.attribute("pads", [0] * (2 * rank))
    n, channels = x.shape[0], x.shape[1] // int(np.prod(block))
    counts = [
        (image[a] + pads[a] + pads[a + rank] - dilations[a] * (block[a] - 1) - 1) // strides[a] + 1
        for a in range(rank)
    ]
    blocks = x.reshape(n, channels, *block, *counts)
    for a in range(rank):
        # Where each (offset in the block, block) pair lands on this axis: a sum over both with a 0/1 matrix.
        offset = (
            np.arange(block[a])[:, None] * dilations[a] + np.arange(counts[a])[None] * strides[a] - pads[a]
        )
        place = (offset[..., None] == np.arange(image[a])).astype(np.float32).reshape(-1, image[a])
        # The first remaining block axis and its count go last; each result stays at the end.
        count_axis = 2 + rank - a
        order = [n for n in range(blocks.ndim) if n not in (2, count_axis)]
        moved = blocks.permute(*order, 2, count_axis)
        flat = moved.reshape(*moved.shape[:-2], -1)
        blocks = (flat.unsqueeze(-2) @ constant(node, place).cast(x.dtype)).squeeze(-2)
    return blocks.reshape(n, channels, *image)
