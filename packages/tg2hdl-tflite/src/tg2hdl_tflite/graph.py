"""Building the operators of a graph, one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tinygrad import Tensor

from tg2hdl_backend.tinygrad_adapter.origins import made_by
from tg2hdl_ir import UnsupportedError
from tg2hdl_tflite.contents import Contents
from tg2hdl_tflite.file import TensorRecord, TfliteGraph
from tg2hdl_tflite.node import OPERATORS, TfliteNode
from tg2hdl_tflite.value import TfliteValue, dtype_of

__all__ = ["run_graph"]


def run_graph(
    graph: TfliteGraph, inputs: Iterable[TfliteValue], contents: Contents
) -> dict[int, TfliteValue]:
    """Values of all tensors; where an operator is refused, placeholders for its results.

    Parameters
    ----------
    graph : TfliteGraph
    inputs : iterable of TfliteValue
        In the order of the graph.
    contents : Contents
        Constants and variables of the model; collects the refusals.
    """
    values = dict(zip(graph.inputs, inputs, strict=True))
    for record in graph.operators:
        node = TfliteNode(record, graph, values, contents)
        try:
            with made_by(f"{node.output.label} ({record.name})" if record.outputs else record.name):
                results = _build(node)
        except UnsupportedError as error:
            contents.refused.append(error)
            results = [_placeholder(r) for r in node.outputs]
        values.update(zip(record.outputs, results, strict=False))
    return values


def _build(node: TfliteNode) -> list[TfliteValue]:
    """Results of an operator, checked against the file."""
    known = OPERATORS.get(node.name)
    if known is None:
        raise node.refuse("there is no such operator in hardware", "replace it in the model and export again")
    if node.record.version > known[0]:
        raise node.refuse(
            f"version {node.record.version} is newer than {known[0]}",
            "export the model with an older converter",
        )
    try:
        found = known[1](node)
    except (ValueError, IndexError, RuntimeError, AssertionError, ArithmeticError) as error:
        # tinygrad refuses shapes by all of these.
        raise node.refuse(f"its operands do not fit: {error}", "export the model again") from error
    results = found if isinstance(found, list) else [found]
    return [_checked(node, place, result) for place, result in enumerate(results)]


def _checked(node: TfliteNode, place: int, result: Any) -> TfliteValue:
    record = node.outputs[place]
    value = result if isinstance(result, TfliteValue) else TfliteValue(record, result)
    if value.made is None:
        shape = value.array.shape if value.array is not None else ()
    else:
        shape = tuple(int(n) for n in value.made.shape)
        if value.made.dtype != dtype_of(record.kind):
            raise node.refuse(f"the result is {value.made.dtype}, not {record.kind}", "export it again")
    if shape != record.shape:
        raise node.refuse(
            f"the result has shape {shape}, where the file says {record.shape}",
            "export the model with fixed shapes",
        )
    return value


def _placeholder(record: TensorRecord) -> TfliteValue:
    """A tensor of the shape and type of a result that was refused, so that later operators are checked too."""
    dtype = dtype_of(record.kind) or dtype_of("INT32")
    return TfliteValue(record, Tensor.empty(*record.shape, dtype=dtype))
