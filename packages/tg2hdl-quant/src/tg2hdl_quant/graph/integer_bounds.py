"""Bounds of the integers that each node of a graph of integers can have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.tensors import MOVEMENT, TensorNode

__all__ = ["Bounds", "integer_bounds", "weighted_bounds"]

Bounds = tuple[int, int]


def integer_bounds(nodes: Sequence[TensorNode], known: dict[int, Bounds], number: int) -> Bounds:
    """Smallest and largest element of a node for any input; those of its type where nothing more is proven.

    Parameters
    ----------
    known : dict of int to Bounds
        Bounds proven elsewhere; what is found is added.
    """
    if number in known:
        return known[number]
    for source in _below(nodes, known, number):
        known[source] = _clipped(nodes[source], _bounds(nodes, known, nodes[source]))
    return known[number]


def weighted_bounds(
    weights: npt.NDArray[Any], values: Bounds, shape: tuple[int, ...], axes: tuple[int, ...]
) -> Bounds:
    """Smallest and largest sum of products with constant weights, over `axes` of `shape`.

    Parameters
    ----------
    weights : ndarray
        Of the rank of `shape`; an axis of size 1 repeats.
    """
    repeated = 1
    for axis in axes:
        if weights.shape[axis] == 1:
            repeated *= shape[axis]
    positive = np.maximum(weights, 0).sum(axes) * repeated
    negative = np.minimum(weights, 0).sum(axes) * repeated
    high = positive * values[1] + negative * values[0]
    low = positive * values[0] + negative * values[1]
    return int(min(low.min(), 0)), int(max(high.max(), 0))


def _below(nodes: Sequence[TensorNode], known: dict[int, Bounds], number: int) -> list[int]:
    """Nodes without bounds that `number` is made of, in order, and itself."""
    found, stack = set(), [number]
    while stack:
        current = stack.pop()
        if current not in found and current not in known:
            found.add(current)
            stack.extend(nodes[current].sources)
    return sorted(found)


def _clipped(node: TensorNode, bounds: Bounds) -> Bounds:
    """Bounds in the type of a node; a result that can wrap has all of them."""
    if node.dtype.is_float:
        return 0, 0
    least, most = _type_bounds(node)
    return bounds if least <= bounds[0] and bounds[1] <= most else (least, most)


def _type_bounds(node: TensorNode) -> Bounds:
    if node.dtype.is_bool:
        return 0, 1
    return node.dtype.min_value, node.dtype.max_value


def _bounds(nodes: Sequence[TensorNode], known: dict[int, Bounds], node: TensorNode) -> Bounds:
    sources = [known[s] for s in node.sources]
    if any(nodes[s].dtype.is_float for s in node.sources) or node.dtype.is_float:
        return _type_bounds(node) if not node.dtype.is_float else (0, 0)
    if node.op == "const":
        return (int(node.arg.min()), int(node.arg.max())) if node.arg.size else (0, 0)
    if node.op == "pad":
        return min(sources[0][0], 0), max(sources[0][1], 0)
    if node.op in MOVEMENT or node.op in ("cast", "max", "gather"):
        return sources[0]
    if node.op == "WHERE":
        return min(sources[1][0], sources[2][0]), max(sources[1][1], sources[2][1])
    if node.op == "ADD":
        return sources[0][0] + sources[1][0], sources[0][1] + sources[1][1]
    if node.op == "SUB":
        return sources[0][0] - sources[1][1], sources[0][1] - sources[1][0]
    if node.op == "MUL":
        corners = [a * b for a in sources[0] for b in sources[1]]
        return min(corners), max(corners)
    if node.op == "MAX":
        return max(sources[0][0], sources[1][0]), max(sources[0][1], sources[1][1])
    if node.op == "sum":
        return _sum_bounds(nodes, known, node)
    return _type_bounds(node)


def _sum_bounds(nodes: Sequence[TensorNode], known: dict[int, Bounds], node: TensorNode) -> Bounds:
    source = nodes[node.sources[0]]
    count = int(np.prod([source.shape[a] for a in node.arg]))
    low, high = known[node.sources[0]]
    plain = (low * count, high * count)
    if source.op != "MUL":
        return plain
    for weights, values in (source.sources, source.sources[::-1]):
        array = _constant(nodes, weights)
        if array is not None:
            array = array.reshape((1,) * (len(source.shape) - array.ndim) + array.shape).astype(np.int64)
            return weighted_bounds(array, known[values], source.shape, node.arg)
    return plain


def _constant(nodes: Sequence[TensorNode], number: int) -> npt.NDArray[Any] | None:
    """Elements of a node that is a constant in some order."""
    node = nodes[number]
    if node.op == "const":
        return np.asarray(node.arg)
    inner = _constant(nodes, node.sources[0]) if node.op in ("reshape", "permute", "cast", "ADD") else None
    if inner is None:
        return None
    if node.op == "reshape":
        return inner.reshape(node.shape)
    if node.op == "permute":
        return inner.transpose(node.arg)
    if node.op == "ADD":
        other = _constant(nodes, node.sources[1])
        return None if other is None else inner.astype(np.int64) + other
    return inner
