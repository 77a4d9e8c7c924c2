"""Canonical form of a float graph: constants computed, scales of a contraction in its weights.

Subtraction, negation and division become sums and products.  A factor after a contraction, such as that of a batch
normalization, moves into the weights, and a term added before the contraction moves after it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import DType
from tg2hdl_ir.tensors import GraphBuilder, TensorGraph, TensorNode, evaluate_nodes

__all__ = ["contraction_operands", "prune", "simplify"]

Array = npt.NDArray[Any]


def simplify(graph: TensorGraph, *, keeps_divisions: bool = False) -> TensorGraph:
    """The same numbers but for the rounding of constants.

    Parameters
    ----------
    keeps_divisions : bool
        Leave divisions as they are: a product with the reciprocal is rounded twice.
    """
    folded = _fold_constants(graph)
    return prune(_Rewriter(folded, keeps_divisions).run())


def prune(graph: TensorGraph) -> TensorGraph:
    """Only nodes that an output needs, and all inputs."""
    needed = set(graph.outputs) | set(graph.inputs)
    for number in reversed(range(len(graph.nodes))):
        if number in needed:
            needed.update(graph.nodes[number].sources)
    order = sorted(needed)
    place = {number: n for n, number in enumerate(order)}
    nodes = []
    for number in order:
        node = graph.nodes[number]
        nodes.append(replace(node, sources=tuple(place[s] for s in node.sources)))
    return graph.rebuilt(nodes, place)


def contraction_operands(graph: TensorGraph, number: int) -> tuple[int, int] | None:
    """Operands of the product that a sum adds up; None for other nodes.

    Parameters
    ----------
    graph : TensorGraph
    number : int
        Of the node.
    """
    node = graph.nodes[number]
    if node.op != "sum" or not node.dtype.is_float:
        return None
    product = graph.nodes[node.sources[0]]
    return (product.sources[0], product.sources[1]) if product.op == "MUL" else None


def _fold_constants(graph: TensorGraph) -> TensorGraph:
    varying = set(graph.inputs)
    for number, node in enumerate(graph.nodes):
        # Weights that are codes stay codes.
        if node.op == "dequantize" or any(s in varying for s in node.sources):
            varying.add(number)
    borders = {s for n in varying for s in graph.nodes[n].sources if s not in varying}
    borders |= {n for n in graph.outputs if n not in varying}
    computed = [n for n in borders if graph.nodes[n].op != "const"]
    values = evaluate_nodes(graph, (), computed) if computed else {}
    labels = _weight_labels(graph)
    nodes = list(graph.nodes)
    for number in computed:
        node = nodes[number]
        nodes[number] = TensorNode("const", (), values[number][0], node.shape, node.dtype, labels[number])
    return prune(replace(graph, nodes=tuple(nodes)))


def _weight_labels(graph: TensorGraph) -> list[str]:
    """Name of the weight that a constant is computed from."""
    labels: list[str] = []
    for node in graph.nodes:
        own = node.label if node.op == "const" else ""
        labels.append(own or next((labels[s] for s in node.sources if labels[s]), ""))
    return labels


class _Rewriter:
    """Rebuilds a graph node by node."""

    def __init__(self, graph: TensorGraph, keeps_divisions: bool) -> None:
        self._graph = graph
        self._keeps_divisions = keeps_divisions
        self._new = GraphBuilder()
        self._shared: set[int] = set()

    @property
    def _nodes(self) -> list[TensorNode]:
        return self._new.nodes

    def run(self) -> TensorGraph:
        graph = self._graph
        uses = graph.consumers()
        place: list[int] = []
        for number, node in enumerate(graph.nodes):
            made = self._rewrite(node, tuple(place[s] for s in node.sources))
            if len(uses[number]) + graph.outputs.count(number) > 1:
                self._shared.add(made)
            place.append(made)
        return graph.rebuilt(self._nodes, place)

    def _rewrite(self, node: TensorNode, sources: tuple[int, ...]) -> int:
        if node.op == "const":
            return self._new.const(node.arg, node.dtype, node.label)
        if node.op == "sum" and self._nodes[sources[0]].op == "permute":
            return self._sum(node, sources[0])
        if not node.dtype.is_float:
            return self._new.add(node.op, sources, node.shape, node.dtype, node.arg, node.label)
        if node.op == "WHERE":
            condition = self._constant(sources[0])
            if condition is not None and condition.min() == condition.max():
                chosen = sources[1 if condition.reshape(-1)[0] else 2]
                if self._nodes[chosen].shape == node.shape:
                    return chosen
        if node.op == "NEG":
            return self._times(sources[0], self._scalar(-1.0), node)
        if node.op == "SUB":
            return self._plus(sources[0], self._times(sources[1], self._scalar(-1.0), node), node)
        if node.op == "FDIV" and not self._keeps_divisions:
            divisor = self._constant(sources[1])
            if divisor is not None:
                return self._times(sources[0], self._new.const(1 / divisor, node.dtype), node)
            shape = self._nodes[sources[1]].shape
            inverse = self._new.add("RECIPROCAL", (sources[1],), shape, node.dtype, None, node.label)
            return self._times(sources[0], inverse, node)
        if node.op == "MUL":
            return self._times(sources[0], sources[1], node)
        if node.op == "ADD":
            return self._plus(sources[0], sources[1], node)
        return self._new.add(node.op, sources, node.shape, node.dtype, node.arg, node.label)

    def _scalar(self, value: float) -> int:
        return self._new.const(value, DType.FP32)

    def _constant(self, number: int) -> Array | None:
        node = self._nodes[number]
        return node.arg if node.op == "const" else None

    def _sum(self, node: TensorNode, source: int) -> int:
        """Sum over the axes of a permutation's operand, permuted afterwards if the order of the other axes changes."""
        order = self._nodes[source].arg
        inner = self._nodes[source].sources[0]
        axes = tuple(sorted(order[a] for a in node.arg))
        total = self._new.reduce("sum", inner, axes, node.dtype, node.label)
        kept = [a for n, a in enumerate(order) if n not in node.arg]
        ranks = tuple(sorted(kept).index(a) for a in kept)
        if ranks == tuple(range(len(ranks))):
            return total
        return self._new.add("permute", (total,), node.shape, node.dtype, ranks, node.label)

    def _plus(self, a: int, b: int, node: TensorNode) -> int:
        if self._constant(a) is not None:
            a, b = b, a
        added = self._constant(b)
        left = self._nodes[a]
        if added is not None and not np.any(added) and left.shape == node.shape:
            return a
        if added is not None and left.op == "ADD" and left.dtype.is_float and a not in self._shared:
            inner = self._constant(left.sources[1])
            if inner is not None:
                total = self._new.const(inner + added, node.dtype, self._nodes[b].label)
                return self._new.elementwise(
                    "ADD", left.sources[0], total, dtype=node.dtype, label=node.label
                )
        return self._new.elementwise("ADD", a, b, dtype=node.dtype, label=node.label)

    def _times(self, a: int, b: int, node: TensorNode) -> int:
        if self._constant(a) is not None:
            a, b = b, a
        factor = self._constant(b)
        left = self._nodes[a]
        if factor is None or not np.all(np.isfinite(factor)):
            return self._new.elementwise("MUL", a, b, dtype=node.dtype, label=node.label)
        if np.all(factor == 1) and left.shape == node.shape:
            return a
        if a in self._shared:
            return self._new.elementwise("MUL", a, b, dtype=node.dtype, label=node.label)
        if left.op == "MUL" and left.dtype.is_float:
            inner = self._constant(left.sources[1])
            if inner is not None:
                both = self._new.const(inner * factor, node.dtype, self._nodes[b].label)
                return self._times(left.sources[0], both, node)
        if left.op == "ADD" and left.dtype.is_float:
            added = self._constant(left.sources[1])
            if added is not None:
                scaled = self._times(left.sources[0], b, node)
                moved = self._new.const(added * factor, node.dtype, self._nodes[left.sources[1]].label)
                return self._plus(scaled, moved, node)
        folded = self._into_weights(a, factor) if left.shape == node.shape else None
        if folded is not None:
            return folded
        return self._new.elementwise("MUL", a, b, dtype=node.dtype, label=node.label)

    def _into_weights(self, number: int, factor: Array) -> int | None:
        """The contraction before reshapes, with scaled weights; None where they would grow."""
        node = self._nodes[number]
        if number in self._shared:
            return None
        if node.op == "reshape":
            inner = self._nodes[node.sources[0]]
            full = np.broadcast_to(factor, node.shape).reshape(inner.shape)
            moved = self._into_weights(node.sources[0], full)
            return None if moved is None else self._new.move(node, moved)
        if node.op == "permute":
            full = np.broadcast_to(factor, node.shape).transpose(np.argsort(node.arg))
            moved = self._into_weights(node.sources[0], full)
            return None if moved is None else self._new.move(node, moved)
        if node.op != "sum" or self._nodes[node.sources[0]].op != "MUL":
            return None
        product = self._nodes[node.sources[0]]
        values, weights = product.sources
        array = self._constant(weights)
        if array is None:
            return None
        rank = len(product.shape)
        array = array.reshape((1,) * (rank - array.ndim) + array.shape)
        full = np.expand_dims(np.broadcast_to(factor, node.shape), node.arg)
        for axis in range(rank):
            # Along an axis that the weights repeat on, the factor must be the same.
            if axis not in node.arg and array.shape[axis] == 1 and full.shape[axis] > 1:
                first = full.take([0], axis)
                if not np.array_equal(np.broadcast_to(first, full.shape), full):
                    return None
                full = first
        scaled = self._new.const(array * full, node.dtype, self._nodes[weights].label)
        scaled_product = self._new.elementwise("MUL", values, scaled, dtype=node.dtype, label=product.label)
        return self._new.reduce("sum", scaled_product, node.arg, node.dtype, node.label)
