"""Some elements of tensors of a graph, computed from the elements that they are made of.

A few outputs of a layer cost a few of its sums of products, whatever the size of its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import DType
from tg2hdl_ir.tensors import ELEMENTWISE, REDUCTIONS, TensorGraph, TensorNode, evaluate_graph

__all__ = ["SampledValues", "TooMuch", "picked"]

Array = npt.NDArray[Any]


class TooMuch(Exception):
    """More elements than the limit."""


class SampledValues:
    """Elements of the nodes of a graph.

    Parameters
    ----------
    inputs : sequence of ndarray
        The first axis counts samples.
    limit : int
        Most elements that are computed.
    """

    def __init__(self, graph: TensorGraph, inputs: Sequence[Array], limit: int) -> None:
        self._nodes = graph.nodes
        self._inputs = inputs
        self._samples = len(inputs[0]) if inputs else 1
        self._left = limit
        self._known: dict[tuple[int, int], tuple[Array, Array]] = {}

    def at(self, number: int, index: Array) -> Array:
        """Elements of a node by their flat indices, of shape ``(samples, indices)``.

        Parameters
        ----------
        number : int
            Of the node.
        index : ndarray
            Flat indices.

        Raises
        ------
        TooMuch
            When the limit is reached.
        """
        key = number, id(index)
        if key not in self._known:
            self._left -= len(index)
            if self._left < 0:
                raise TooMuch
            # The indices are kept, so that no others get their identity.
            self._known[key] = index, self._at(self._nodes[number], index)
        return self._known[key][1]

    def _at(self, node: TensorNode, index: Array) -> Array:
        if node.op == "input":
            array = self._inputs[node.arg].astype(node.dtype.numpy(), copy=False)
            return np.asarray(array.reshape(len(array), -1)[:, index])
        if node.op == "const":
            return self._spread(picked(node.arg, node.shape, index))
        if node.op in REDUCTIONS:
            return self._reduced(node, index)
        if node.op == "gather":
            table = self.at(node.sources[0], np.arange(self._nodes[node.sources[0]].shape[0]))
            return np.take_along_axis(table, self.at(node.sources[1], index).astype(np.int64), axis=1)
        if node.op == "pad":
            return self._padded(node, index)
        operands = [self.at(s, _source_index(node, self._nodes[s].shape, index)) for s in node.sources]
        if node.op in ("quantize", "dequantize"):
            scale, zero = (picked(a, node.shape, index) for a in (node.arg.scale, node.arg.zero))
            if node.dtype is DType.FP64:
                return np.asarray((operands[0].astype(np.float64) - zero) * scale.astype(np.float64))
            quantizer = replace(node.arg, scale=scale, zero=zero)
            made = quantizer.codes(operands[0]) if node.op == "quantize" else quantizer.values(operands[0])
            return np.asarray(made.astype(node.dtype.numpy()))
        if node.op in ELEMENTWISE:
            return self._computed(node, operands)
        return operands[0]

    def _computed(self, node: TensorNode, operands: list[Array]) -> Array:
        """An operation on elements, each a sample of a graph of scalars."""
        given = [TensorNode("input", (), n, (), self._nodes[s].dtype) for n, s in enumerate(node.sources)]
        made = TensorNode(node.op, tuple(range(len(given))), node.arg, (), node.dtype)
        graph = TensorGraph(
            "",
            (*given, made),
            tuple(range(len(given))),
            (len(given),),
            tuple(str(n) for n in range(len(given))),
        )
        return evaluate_graph(graph, [a.reshape(-1) for a in operands])[0].reshape(operands[0].shape)

    def _spread(self, array: Array) -> Array:
        return np.broadcast_to(array, (self._samples, len(array)))

    def _reduced(self, node: TensorNode, index: Array) -> Array:
        shape = self._nodes[node.sources[0]].shape
        steps = np.array([int(np.prod(shape[a + 1 :])) for a in range(len(shape))])
        kept = [a for a in range(len(shape)) if a not in node.arg]
        start = sum(
            (i * steps[a] for i, a in zip(_unravelled(index, node.shape), kept, strict=True)),
            np.zeros_like(index),
        )
        grids = np.meshgrid(*(np.arange(shape[a]) * steps[a] for a in node.arg), indexing="ij")
        inner = sum(g.reshape(-1) for g in grids)
        full = (start[:, None] + inner).reshape(-1)
        count = len(full) // max(len(index), 1)
        values = self.at(node.sources[0], full).reshape(-1, len(index), count)
        return np.asarray(REDUCTIONS[node.op](values, (2,))).astype(node.dtype.numpy())

    def _padded(self, node: TensorNode, index: Array) -> Array:
        shape = self._nodes[node.sources[0]].shape
        axes = _unravelled(index, node.shape)
        moved = [i - before for i, (before, _) in zip(axes, node.arg, strict=True)]
        inside = np.ones(len(index), bool)
        for i, size in zip(moved, shape, strict=True):
            inside &= (i >= 0) & (i < size)
        found = np.zeros((self._samples, len(index)), node.dtype.numpy())
        if inside.any():
            source = _raveled([i[inside] for i in moved], shape)
            found[:, inside] = self.at(node.sources[0], source)
        return found


def _unravelled(index: Array, shape: tuple[int, ...]) -> list[Array]:
    return list(np.unravel_index(index, shape)) if shape else []


def _raveled(axes: Sequence[Array], shape: tuple[int, ...]) -> Array:
    return np.asarray(np.ravel_multi_index(tuple(axes), shape))


def _broadcast(axes: Sequence[Array], shape: tuple[int, ...], like: Array) -> Array:
    """Flat indices in a smaller shape that broadcasts."""
    own = axes[len(axes) - len(shape) :]
    kept = [np.where(size == 1, 0, i) for i, size in zip(own, shape, strict=True)]
    return _raveled(kept, shape) if shape else np.zeros_like(like)


def picked(array: Array, shape: tuple[int, ...], index: Array) -> Array:
    """Elements of an array that broadcasts to a shape.

    Parameters
    ----------
    array : ndarray
    shape : tuple of int
        To which the array broadcasts.
    index : ndarray
        Flat indices in this shape.
    """
    if array.shape == shape:
        return np.asarray(array.reshape(-1)[index])
    return np.asarray(array.reshape(-1)[_broadcast(_unravelled(index, shape), array.shape, index)])


def _source_index(node: TensorNode, shape: tuple[int, ...], index: Array) -> Array:
    """Where the elements of a movement, or of an operation that broadcasts, come from."""
    if node.op == "reshape" or (shape == node.shape and node.op not in ("permute", "flip", "shrink")):
        return index
    axes = _unravelled(index, node.shape)
    if node.op == "permute":
        moved = [axes[node.arg.index(a)] for a in range(len(shape))]
    elif node.op == "flip":
        moved = [shape[a] - 1 - i if a in node.arg else i for a, i in enumerate(axes)]
    elif node.op == "shrink":
        moved = [i + start for i, (start, _) in zip(axes, node.arg, strict=True)]
    else:
        return _broadcast(axes, shape, index)
    return _raveled(moved, shape)
