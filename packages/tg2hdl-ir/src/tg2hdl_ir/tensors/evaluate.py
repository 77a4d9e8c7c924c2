"""A tensor graph in numpy, on many samples at once.

Constants have no sample axis; values that depend on an input have it as their first axis.  Sums of products are one
contraction, so that their products are never stored.  Integers are exact: a contraction runs in float64 only while
every sum is below 2^53, and in int64 otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.errors import UnsupportedError
from tg2hdl_ir.tensors.graph import TensorGraph, TensorNode
from tg2hdl_ir.tensors.operations import ELEMENTWISE, MOVEMENT, REDUCTIONS

__all__ = ["evaluate_graph", "evaluate_nodes"]

Array = npt.NDArray[Any]


def evaluate_graph(graph: TensorGraph, inputs: Sequence[npt.ArrayLike]) -> list[Array]:
    """Outputs for inputs whose first axis counts samples.

    Parameters
    ----------
    graph : TensorGraph
    inputs : sequence of array_like
        One for each input, of shape (samples, *shape of the input).
    """
    values = evaluate_nodes(graph, inputs, graph.outputs)
    return [values[n] for n in graph.outputs]


def evaluate_nodes(
    graph: TensorGraph, inputs: Sequence[npt.ArrayLike], wanted: Iterable[int]
) -> dict[int, Array]:
    """Values of some nodes, each with the samples as first axis.

    Parameters
    ----------
    graph : TensorGraph
    inputs : sequence of array_like
        One per input, of shape ``(samples, *shape of the input)``; none for a graph of constants, which has one sample.
    wanted : iterable of int
        Nodes to return.
    """
    wanted = tuple(dict.fromkeys(wanted))
    samples = len(np.asarray(inputs[0])) if inputs else 1
    needed, last_use = _liveness(graph, wanted)
    values: dict[int, tuple[Array, bool]] = {}
    with np.errstate(all="ignore"):
        for number in needed:
            node = graph.nodes[number]
            values[number] = _evaluate(graph, node, values, inputs)
            for source in last_use.get(number, ()):
                del values[source]
    found = {}
    for number in wanted:
        value, batched = values[number]
        shape = graph.nodes[number].shape
        found[number] = value if batched else np.broadcast_to(value, (samples, *shape))
    return found


def _product_of(graph: TensorGraph, node: TensorNode) -> TensorNode | None:
    """The product that a sum adds up."""
    if node.op != "sum":
        return None
    source = graph.nodes[node.sources[0]]
    order = source
    if order.op == "permute":
        order = graph.nodes[order.sources[0]]
    return order if order.op == "MUL" and not order.dtype.is_bool else None


def _operands(graph: TensorGraph, node: TensorNode) -> tuple[int, ...]:
    product = _product_of(graph, node)
    return node.sources if product is None else product.sources


def _liveness(graph: TensorGraph, wanted: tuple[int, ...]) -> tuple[list[int], dict[int, list[int]]]:
    needed: set[int] = set()
    stack = list(wanted)
    while stack:
        number = stack.pop()
        if number not in needed:
            needed.add(number)
            stack.extend(_operands(graph, graph.nodes[number]))
    order = sorted(needed)
    last: dict[int, int] = {}
    for number in order:
        for source in _operands(graph, graph.nodes[number]):
            last[source] = number
    freed: dict[int, list[int]] = {}
    for source, number in last.items():
        if source not in wanted:
            freed.setdefault(number, []).append(source)
    return order, freed


def _evaluate(
    graph: TensorGraph,
    node: TensorNode,
    values: dict[int, tuple[Array, bool]],
    inputs: Sequence[npt.ArrayLike],
) -> tuple[Array, bool]:
    if node.op == "input":
        return np.asarray(inputs[node.arg]).astype(node.dtype.numpy(), copy=False), True
    if node.op == "const":
        return node.arg, False
    product = _product_of(graph, node)
    if product is not None:
        return _contract(graph, node, product, [values[s] for s in product.sources])
    operands = [values[s] for s in node.sources]
    batched = any(b for _, b in operands)
    if node.op in MOVEMENT:
        return _move(node, operands[0][0], batched), batched
    if node.op in ELEMENTWISE:
        arrays = [_aligned(v, b, len(node.shape)) for v, b in operands]
        types = tuple(graph.nodes[s].dtype for s in node.sources)
        return ELEMENTWISE[node.op](arrays, types, node.dtype), batched
    value = operands[0][0]
    if node.op in REDUCTIONS:
        axes = tuple(a + batched for a in node.arg)
        return np.asarray(REDUCTIONS[node.op](value, axes)).astype(node.dtype.numpy(), copy=False), batched
    if node.op == "gather":
        return value[operands[1][0]], operands[1][1]
    if node.op == "quantize":
        return node.arg.codes(value).astype(node.dtype.numpy()), batched
    if node.op == "dequantize":
        return node.arg.values(value), batched
    raise UnsupportedError(
        f"a node of the unknown operation {node.op!r} cannot be evaluated",
        where=f"node {node.label or node.op}",
        hint="use the operations of tg2hdl_ir.tensors; check_graph names all that do not fit",
    )


def _aligned(value: Array, batched: bool, rank: int) -> Array:
    """Insert axes of size 1 between the samples and a value of fewer axes."""
    missing = rank + 1 - value.ndim
    return value.reshape(value.shape[0], *(1,) * missing, *value.shape[1:]) if batched and missing else value


def _move(node: TensorNode, value: Array, batched: bool) -> Array:
    lead = value.shape[:1] if batched else ()
    if node.op == "reshape":
        return value.reshape((*lead, *node.shape))
    if node.op == "expand":
        return np.broadcast_to(_aligned(value, batched, len(node.shape)), (*lead, *node.shape))
    if node.op == "permute":
        return value.transpose((*range(len(lead)), *(a + len(lead) for a in node.arg)))
    if node.op == "pad":
        return np.pad(value, (*((0, 0) for _ in lead), *node.arg))
    if node.op == "shrink":
        return value[(slice(None),) * len(lead) + tuple(slice(a, b) for a, b in node.arg)]
    return np.flip(value, tuple(a + len(lead) for a in node.arg))


def _contract(
    graph: TensorGraph, node: TensorNode, product: TensorNode, operands: list[tuple[Array, bool]]
) -> tuple[Array, bool]:
    """Sum of products over axes, as one matrix product."""
    rank = len(product.shape)
    order = graph.nodes[node.sources[0]]
    permutation = order.arg if order.op == "permute" else tuple(range(rank))
    summed = {permutation[a] for a in node.arg}
    kept = [permutation[a] for a in range(rank) if a not in node.arg]
    batched = any(b for _, b in operands)
    arrays, subscripts = [], []
    for value, is_batched in operands:
        aligned = _aligned(value, is_batched, rank)
        lead = int(is_batched)
        array = (
            aligned
            if is_batched or aligned.ndim == rank
            else aligned.reshape(*(1,) * (rank - aligned.ndim), *aligned.shape)
        )
        labels: list[int] = [rank] if lead else []
        index: list[Any] = [slice(None)] * lead
        for axis in range(rank):
            # An operand does not own an axis along which it is broadcast: the contraction must not iterate over it.
            if array.shape[axis + lead] == 1 or (array.strides[axis + lead] == 0 and axis not in summed):
                index.append(0)
            else:
                index.append(slice(None))
                labels.append(axis)
        arrays.append(array[tuple(index)])
        subscripts.append(labels)
    present = {label for labels in subscripts for label in labels}
    repeated = 1
    for axis in summed - present:
        repeated *= product.shape[axis]
    out_labels = ([rank] if batched else []) + [a for a in kept if a in present]
    result = _einsum(arrays, subscripts, out_labels, node, product.shape, summed)
    if repeated != 1:
        result = result * np.asarray(repeated, result.dtype)
    lead_shape = (len(result),) if batched else ()
    sizes = [product.shape[a] if a in present else 1 for a in kept]
    result = result.reshape((*lead_shape, *sizes))
    full = np.broadcast_to(result, (*lead_shape, *(product.shape[a] for a in kept)))
    return full.astype(node.dtype.numpy(), copy=False), batched


def _einsum(
    arrays: list[Array],
    subscripts: list[list[int]],
    out: list[int],
    node: TensorNode,
    shape: tuple[int, ...],
    summed: set[int],
) -> Array:
    arguments: list[Any] = []
    if node.dtype.is_float:
        work: Any = np.float64 if node.dtype.bit_width == 64 else np.float32
    else:
        reach = 1
        for array in arrays:
            reach *= max(int(np.abs(array.astype(np.int64)).max(initial=0)), 1)
        for axis in summed:
            reach *= shape[axis]
        work = np.float64 if reach < 1 << 53 else np.int64
    for array, labels in zip(arrays, subscripts, strict=True):
        arguments += [array.astype(work, copy=False), labels]
    return np.asarray(np.einsum(*arguments, out, optimize=True))
