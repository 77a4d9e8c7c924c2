"""IF and WHILE: the graph that a constant condition chooses, and loops of a known number of trips."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np

from tg2hdl_tflite.file import TfliteGraph
from tg2hdl_tflite.graph import run_graph
from tg2hdl_tflite.node import TfliteNode, operator
from tg2hdl_tflite.value import TfliteValue

__all__ = ["if_", "while_"]

_MOST_CALLS = 256
"""Runs of other graphs in a model; each one is hardware of its own."""
_MOST_DEPTH = 16


@operator("IF", version=1)
def if_(node: TfliteNode) -> Any:
    """One of two graphs; the condition is a constant."""
    condition = node.constant(0)
    if condition.size != 1:
        raise node.refuse(f"a condition of {condition.size} elements", "export the model again")
    graph = node.subgraph("ThenSubgraphIndex" if condition.item() else "ElseSubgraphIndex")
    given = [node.input(n) for n in range(1, len(node.record.inputs))]
    return _outputs(node, _called(node, graph, given, 0))


@operator("WHILE", version=1)
def while_(node: TfliteNode) -> Any:
    """Copies of a graph, one for each trip; the condition has to follow from constants."""
    condition, body = node.subgraph("CondSubgraphIndex"), node.subgraph("BodySubgraphIndex")
    values = node.inputs()
    before = len(node.contents.refused)
    for trip in count():
        found = _called(node, condition, values, 2 * trip)
        if len(node.contents.refused) > before:
            break
        if len(found) != 1 or found[0].array is None:
            raise node.refuse(
                "a condition that is computed at run time",
                "export the loop with a fixed number of trips, or unrolled",
            )
        if not np.all(found[0].array):
            return _outputs(node, values)
        values = _called(node, body, values, 2 * trip + 1)
    return _outputs(node, values)


def _called(
    node: TfliteNode, graph: TfliteGraph, given: Sequence[TfliteValue], place: int
) -> list[TfliteValue]:
    """Results of another graph."""
    if len(given) != len(graph.inputs):
        raise node.refuse(
            f"{len(given)} values for a graph of {len(graph.inputs)} inputs", "export the model again"
        )
    passed = [_as(node, value, graph, n) for value, n in zip(given, graph.inputs, strict=True)]
    if node.contents.depth >= _MOST_DEPTH:
        raise node.refuse(
            f"graphs that call each other more than {_MOST_DEPTH} deep", "export the model again"
        )
    if node.contents.calls >= _MOST_CALLS:
        raise node.refuse(f"more than {_MOST_CALLS} runs of other graphs", "export the loop with fewer trips")
    with node.contents.scope(node.record.index, place):
        values = run_graph(graph, passed, node.contents)
    found = []
    for n in graph.outputs:
        record = graph.tensors[n]
        if n not in values and record.data is None:
            raise node.refuse(f"output {record.label!r} of a graph has no value", "export the model again")
        found.append(values[n] if n in values else TfliteValue(record, None, record.data))
    return found


def _as(node: TfliteNode, value: TfliteValue, graph: TfliteGraph, number: int) -> TfliteValue:
    """A value by the record that a tensor has in another graph."""
    record = graph.tensors[number]
    same = (
        value.record.kind == record.kind
        and value.record.shape == record.shape
        and np.array_equal(value.record.scale, record.scale)
        and np.array_equal(value.record.zero, record.zero)
    )
    if not same:
        raise node.refuse(
            f"tensor {value.record.label!r} has another shape, type or scale than {record.label!r} of a graph",
            "export the model with fixed shapes",
        )
    return TfliteValue(record, value.made, value.array, value.bounds)


def _outputs(node: TfliteNode, found: Sequence[TfliteValue]) -> list[TfliteValue]:
    if len(found) != len(node.outputs):
        raise node.refuse(f"{len(found)} results for {len(node.outputs)} outputs", "export the model again")
    return [_as(node, value, node.graph, n) for value, n in zip(found, node.record.outputs, strict=True)]
