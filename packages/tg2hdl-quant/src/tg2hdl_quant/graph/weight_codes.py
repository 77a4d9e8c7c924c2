"""Codes of the weights of a layer by a registered method, which sees them as matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import InputError, registry
from tg2hdl_ir.tensors import TensorGraph, evaluate_nodes
from tg2hdl_quant.graph.ranges import registered_method
from tg2hdl_quant.graph.values import of_rank

__all__ = ["WeightRounding", "lost_mean", "times_weights"]

Array = npt.NDArray[Any]
_ROWS = 4096
_ELEMENTS = 1 << 24


class WeightRounding:
    """Rounds weights by a method that may look at the inputs of their layer on samples.

    Parameters
    ----------
    name : str
        Of a registered method.
    graph : TensorGraph
        Whose nodes are the inputs of layers.
    samples : sequence of ndarray

    Raises
    ------
    InputError
        For a name that nothing registers.
    """

    def __init__(self, name: str, graph: TensorGraph, samples: Sequence[Array]) -> None:
        self._name = name
        self._method = registered_method("round_weights", name, f"no method {name!r} that rounds weights")
        self._graph = graph
        self._samples = samples

    def codes(
        self,
        weights: Array,
        scale: Array,
        limit: int,
        operand: int,
        steps: Array,
        shape: tuple[int, ...],
        axes: tuple[int, ...],
        where: str,
    ) -> Array:
        """Codes of weights that are multiplied with ``operand / steps`` in a product of `shape`, summed over `axes`.

        Parameters
        ----------
        weights : ndarray
            In float.
        scale : ndarray
            Of the codes; it broadcasts.
        limit : int
            Largest magnitude of a code.
        operand : int
            Number of the node that is multiplied.
        steps : ndarray
            Scale of the operand.
        shape : tuple of int
            Of the product.
        axes : tuple of int
            That are summed.
        where : str
            Layer, for the error.

        Raises
        ------
        InputError
            For codes of another shape or beyond `limit`.
        """
        rank = len(shape)
        if self._name == "nearest" or any(weights.shape[a] != shape[a] for a in axes):
            # Weights that repeat along a summed axis are not a matrix.
            return np.asarray(np.clip(np.rint(weights / scale), -limit, limit))
        node = self._graph.nodes[operand]
        sizes = (1,) * (rank - len(node.shape)) + node.shape
        count = max(1, min(len(self._samples[0]), _ELEMENTS // max(int(np.prod(node.shape)), 1)))
        chosen = np.linspace(0, len(self._samples[0]) - 1, count).astype(int)
        x = evaluate_nodes(self._graph, [s[chosen] for s in self._samples], [operand])[operand]
        x = x.reshape(count, *sizes) / steps
        x = np.broadcast_to(x, (count, *(shape[a] if a in axes else sizes[a] for a in range(rank))))
        kept = [a for a in range(rank) if a not in axes]
        groups = [a for a in kept if weights.shape[a] > 1 and sizes[a] > 1]
        outputs = [a for a in kept if weights.shape[a] > 1 and sizes[a] == 1]
        rows = [a for a in kept if weights.shape[a] == 1]
        terms = int(np.prod([shape[a] for a in axes]))
        order = (*groups, *outputs, *rows, *axes)
        size = int(np.prod([shape[a] for a in groups]))
        x = x.transpose([1 + a for a in (*groups, *outputs)] + [0] + [1 + a for a in (*rows, *axes)])
        x = x.reshape(size, -1, terms)
        x = x[:, np.linspace(0, x.shape[1] - 1, min(_ROWS, x.shape[1])).astype(int)]
        matrix = weights.transpose(order).reshape(size, -1, terms)
        channel = np.broadcast_to(scale, weights.shape).transpose(order).reshape(size, -1, terms)
        if all(np.broadcast_to(scale, weights.shape).strides[a] == 0 for a in axes):
            channel = channel[:, :, :1]
        found = np.asarray(registry().call(self._method, "round_weights", matrix, channel, limit, x))
        if (
            found.shape != matrix.shape
            or np.any(np.rint(found) != found)
            or np.abs(found).max(initial=0) > limit
        ):
            raise InputError(
                f"method {self._name!r} gave no codes of shape {matrix.shape} within +-{limit}",
                where=where,
                hint="correct the method: tg2hdl_quant.testing.check_quantizer tests it",
            )
        return found.reshape([weights.shape[a] for a in order]).transpose(np.argsort(order))


def times_weights(offset: Array, weights: Array, shape: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    """Sum over `axes` of products of `shape`; an axis along which both repeat has size 1.

    Parameters
    ----------
    offset, weights : ndarray
        Broadcast to `shape`.
    shape : tuple of int
    axes : tuple of int
    """
    full = tuple(
        size if a in axes else max(offset.shape[a], weights.shape[a]) for a, size in enumerate(shape)
    )
    return np.asarray((offset * weights + np.zeros(full)).sum(axes))


def lost_mean(mean: Array, weights: Array, rounded: Array, axes: tuple[int, ...]) -> Array:
    """The shift of each output channel's mean by rounding of the weights.

    Parameters
    ----------
    mean : ndarray
        Of the operand, by element.
    weights, rounded : ndarray
        Before and after.
    axes : tuple of int
        That are summed.
    """
    lost = (of_rank(mean, weights.ndim) * (weights - rounded)).sum(axes, keepdims=True)
    repeated = tuple(a for a in range(weights.ndim) if a not in axes and weights.shape[a] == 1)
    return np.asarray(np.squeeze(lost.mean(repeated, keepdims=True), axes))
