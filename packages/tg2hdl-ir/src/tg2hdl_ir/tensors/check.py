"""Checks a graph of tensors that was read from a file: each node fits its operands."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import InputError
from tg2hdl_ir.tensors.graph import TensorGraph, TensorNode
from tg2hdl_ir.tensors.operations import ELEMENTWISE, MOVEMENT, REDUCTIONS

__all__ = ["check_graph"]

_MOST = 1 << 31
"""Elements of a tensor."""


def check_graph(graph: TensorGraph) -> None:
    """Refuse a graph whose nodes do not fit each other.

    Raises
    ------
    InputError
        That names the node.
    """
    if not all(isinstance(name, str) and name for name in (graph.name, *graph.input_names)):
        raise InputError(
            f"a graph is named {graph.name!r}, and its inputs {list(graph.input_names)}",
            hint="give the graph and each of its inputs a name",
        )
    if len(graph.input_names) != len(graph.inputs) or len(set(graph.input_names)) != len(graph.inputs):
        raise InputError(
            f"{len(graph.inputs)} inputs with the names {list(graph.input_names)}",
            where=f"graph {graph.name}",
            hint="give each input one name of its own",
        )
    for number, node in enumerate(graph.nodes):
        try:
            _check(node, number, graph)
        except (ValueError, TypeError, IndexError) as error:
            raise InputError(f"node {number} ({node.op!r}) does not fit: {error}") from None
    numbers = [
        n for n in (*graph.inputs, *graph.outputs) if type(n) is not int or not 0 <= n < len(graph.nodes)
    ]
    if numbers or not graph.outputs:
        raise InputError(
            f"inputs and outputs {numbers} are not among the {len(graph.nodes)} nodes"
            if numbers
            else "a graph without outputs",
            where=f"graph {graph.name}",
            hint="name one output or more, by the numbers of their nodes",
        )
    found = [(node.op, node.arg) for node in (graph.nodes[n] for n in graph.inputs)]
    there = sum(node.op == "input" for node in graph.nodes)
    if found != [("input", n) for n in range(there)]:
        raise InputError(f"{there} input nodes, and the inputs are {found}")


def _check(node: TensorNode, number: int, graph: TensorGraph) -> None:
    _require(isinstance(node.label, str), "the label is not text")
    _require(
        all(type(s) is int and s >= 0 for s in node.shape) and prod(node.shape) <= _MOST,
        f"the shape is {node.shape}",
    )
    _require(
        all(type(s) is int and 0 <= s < number for s in node.sources), f"the operands are {node.sources}"
    )
    operands = [graph.nodes[s] for s in node.sources]
    count = _operands(node.op)
    _require(len(operands) == count, f"{len(operands)} operands, not {count}")
    shapes, dtypes = [n.shape for n in operands], [n.dtype for n in operands]
    if node.op == "const":
        array = np.asarray(node.arg)
        _require(
            array.shape == node.shape and array.dtype == node.dtype.numpy(), "its array has another type"
        )
        return
    shape, dtype = _result(node, shapes, dtypes)
    _require(shape == node.shape, f"the shape is {node.shape}, not {shape}")
    _require(dtype == node.dtype, f"the type is {node.dtype}, not {dtype}")


def _operands(op: str) -> int:
    if op in ("input", "const"):
        return 0
    if op in MOVEMENT or op in REDUCTIONS:
        return 1
    if op not in ELEMENTWISE and op != "gather":
        raise ValueError("there is no such operation")
    return 2 if op == "gather" else ELEMENTWISE[op].arity


def _result(
    node: TensorNode, shapes: list[tuple[int, ...]], dtypes: list[DType]
) -> tuple[tuple[int, ...], DType]:
    """Shape and type that a node must have."""
    op, arg = node.op, node.arg
    if op == "input":
        _require(type(arg) is int, "it has no number")
        return node.shape, node.dtype
    if op == "gather":
        _require(len(shapes[0]) == 1 and dtypes[1].is_int, "a table has one axis and an index is an integer")
        return shapes[1], dtypes[0]
    if op in ELEMENTWISE:
        allowed = ELEMENTWISE[op].result_types(tuple(dtypes))
        _require(len(allowed) > 0, f"operands of the types {', '.join(map(str, dtypes))}")
        result = node.dtype if node.dtype in allowed else next(iter(allowed))
        return tuple(np.broadcast_shapes(*shapes)), result
    (shape,), (dtype,) = shapes, dtypes
    if op in REDUCTIONS:
        _axes(arg, len(shape))
        kept = tuple(s for axis, s in enumerate(shape) if axis not in arg)
        return kept, node.dtype if op == "sum" and node.dtype.is_float == dtype.is_float else dtype
    return _moved(op, arg, shape, node.shape), dtype


def _moved(op: str, arg: Any, shape: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    if op == "reshape":
        _require(prod(shape) == prod(wanted), f"{prod(shape)} elements for the shape {wanted}")
        return wanted
    if op == "expand":
        return tuple(np.broadcast_shapes(shape, wanted))
    if op == "permute":
        _axes(arg, len(shape))
        _require(len(arg) == len(shape), f"the axes are {arg}")
        return tuple(shape[axis] for axis in arg)
    if op == "flip":
        _axes(arg, len(shape))
        return shape
    _require(len(arg) == len(shape), f"{len(arg)} pairs for {len(shape)} axes")
    for size, (first, second) in zip(shape, arg, strict=True):
        _require(type(first) is int and type(second) is int and first >= 0, f"the pairs are {arg}")
        _require(second >= 0 if op == "pad" else first <= second <= size, f"the pairs are {arg}")
    if op == "pad":
        return tuple(size + before + after for size, (before, after) in zip(shape, arg, strict=True))
    return tuple(end - start for start, end in arg)


def _axes(axes: Any, rank: int) -> None:
    right = isinstance(axes, tuple) and all(type(axis) is int and 0 <= axis < rank for axis in axes)
    _require(right and len(set(axes)) == len(axes), f"the axes are {axes}")


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise ValueError(text)
