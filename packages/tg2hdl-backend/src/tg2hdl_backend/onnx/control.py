"""Nodes that contain graphs, which are unrolled, and sequences, whose lengths are known at compile time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from onnx import GraphProto, NodeProto, helper, numpy_helper
from tinygrad import Tensor

from tg2hdl_backend.onnx.limits import Limit, nodes_of
from tg2hdl_backend.onnx.node import DependsOnData, OnnxNode
from tg2hdl_backend.onnx.tensors import sizes_of
from tg2hdl_backend.onnx.value import OnnxValue

__all__ = ["CONTROL", "SEQUENCES"]

Inputs = Sequence[OnnxValue | None]


class ControlGraph(Protocol):
    """The graph of a node, as far as control needs it."""

    limit: Limit

    def run_graph(
        self, graph: GraphProto, arguments: Sequence[OnnxValue], limit: Limit | None = None
    ) -> list[OnnxValue]:
        """Results of a graph that a node contains, for values of its inputs."""

    def describe(self, node: NodeProto, inputs: Inputs) -> OnnxNode:
        """The facts that an operator's definition may use."""

    def depends(self, info: OnnxNode, position: int, value: OnnxValue, what: str) -> DependsOnData:
        """Error about a value that must be known at compile time and is not."""


def _body(node: NodeProto, name: str = "body") -> GraphProto:
    body: GraphProto = next(a.g for a in node.attribute if a.name == name)
    return body


def _attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    found = next((a for a in node.attribute if a.name == name), None)
    return default if found is None else helper.get_attribute_value(found)


def _known(
    graph: ControlGraph, node: NodeProto, inputs: Inputs, position: int, value: OnnxValue, what: str
) -> Any:
    if not value.is_known:
        raise graph.depends(graph.describe(node, inputs), position, value, what)
    return value.array


def _if(graph: ControlGraph, node: NodeProto, inputs: Inputs) -> Sequence[OnnxValue]:
    condition = inputs[0]
    assert condition is not None
    branches = [_body(node, "then_branch"), _body(node, "else_branch")]
    if condition.is_known:
        return graph.run_graph(branches[not condition.array.all()], ())
    results = []
    for name, then, other in zip(node.output, *(graph.run_graph(b, ()) for b in branches), strict=True):
        one, two = then.items, other.items
        if one is not None or two is not None or then.tensor.shape != other.tensor.shape:
            raise graph.depends(
                graph.describe(node, inputs), 0, condition, "the condition (its branches differ in shape)"
            )
        chosen = condition.tensor.reshape(()).where(then.tensor, other.tensor).cast(then.tensor.dtype)
        depends = condition.inputs | then.inputs | other.inputs
        results.append(OnnxValue.of_tensor(name, chosen, depends))
    return results


def _goes_on(body: GraphProto) -> bool:
    """Whether the condition for another trip is the one before, or a constant that is true."""
    made = {name: n for n in body.node for name in n.output}
    constants = {t.name: numpy_helper.to_array(t) for t in body.initializer}
    name = body.output[0].name
    while name in made and made[name].op_type == "Identity":
        name = made[name].input[0]
    if name in made and made[name].op_type == "Constant":
        value = _attribute(made[name], "value")
        return value is not None and bool(numpy_helper.to_array(value).all())
    return name == body.input[1].name or (name in constants and bool(constants[name].all()))


def _loop(graph: ControlGraph, node: NodeProto, inputs: Inputs) -> Sequence[OnnxValue]:
    body, info = _body(node), graph.describe(node, inputs)
    limit, condition, carried = inputs[0], inputs[1], [v for v in inputs[2:] if v is not None]
    trips = None if limit is None else int(_known(graph, node, inputs, 0, limit, "the trip count").item())
    scanned: list[list[OnnxValue]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    done, nodes, ends = 0, nodes_of(body), not _goes_on(body)
    if condition is not None and not _known(graph, node, inputs, 1, condition, "the condition").all():
        trips = 0
    if trips is None and not ends:
        raise info.unsupported("the loop has no end that is known at compile time", "give a trip count")
    inside = graph.limit if trips is None or ends else graph.limit.loop(trips, nodes, info.where)
    while trips is None or done < trips:
        if condition is not None and not _known(graph, node, inputs, 1, condition, "the condition").all():
            break
        if ends:
            inside = graph.limit.loop(done + 1, nodes, info.where, "the loop runs {} times or more", 4)
        first = OnnxValue.of_array("iteration", np.array(done, np.int64))
        going = OnnxValue.of_array("condition", np.array(True)) if condition is None else condition
        results = graph.run_graph(body, [first, going, *carried], inside)
        # A body whose condition is absent runs until the trip count.
        condition, done = results[0], done + 1
        carried = results[1 : 1 + len(carried)]
        for found, value in zip(scanned, results[1 + len(carried) :], strict=True):
            found.append(value)
    if any(not s for s in scanned):
        raise info.unsupported(
            "a result without elements: the loop runs no time", "give a trip count above 0"
        )
    return [*carried, *(_stacked(s, 0, False) for s in scanned)]


def _scan(graph: ControlGraph, node: NodeProto, inputs: Inputs) -> Sequence[OnnxValue]:
    body, info = _body(node), graph.describe(node, inputs)
    count = _attribute(node, "num_scan_inputs")
    if info.version < 9:
        return _scan_8(graph, node, inputs, body, count)
    state, streams = [v for v in inputs[:-count] if v], [v for v in inputs[-count:] if v]
    outputs = len(body.output) - len(state)
    axes = _attribute(node, "scan_input_axes", [0] * count)
    backward = _attribute(node, "scan_input_directions", [0] * count)
    length = streams[0].tensor.shape[axes[0]]
    inside = graph.limit.loop(length, nodes_of(body), info.where)
    scanned: list[list[OnnxValue]] = [[] for _ in range(outputs)]
    for step in range(length):
        slices = [
            _slice(v, axis, length - 1 - step if reverse else step)
            for v, axis, reverse in zip(streams, axes, backward, strict=True)
        ]
        results = graph.run_graph(body, [*state, *slices], inside)
        state = results[: len(state)]
        for found, value in zip(scanned, results[len(state) :], strict=True):
            found.append(value)
    out_axes = _attribute(node, "scan_output_axes", [0] * outputs)
    out_backward = _attribute(node, "scan_output_directions", [0] * outputs)
    return [
        *state,
        *(_stacked(s, a, bool(b)) for s, a, b in zip(scanned, out_axes, out_backward, strict=True)),
    ]


def _scan_8(
    graph: ControlGraph, node: NodeProto, inputs: Inputs, body: GraphProto, count: int
) -> Sequence[OnnxValue]:
    """Scan over the second axis for each element of the batch, as in version 8."""
    info = graph.describe(node, inputs)
    if inputs[0] is not None or any(_attribute(node, "directions", [])):
        raise info.unsupported("sequence lengths and directions of version 8", "export with opset 9 or later")
    rest = [v for v in inputs[1:] if v is not None]
    state, streams = rest[:-count], rest[-count:]
    sizes = sizes_of(streams[0].tensor)
    inside = graph.limit.loop(sizes[0] * sizes[1], nodes_of(body), info.where)
    rows: list[list[OnnxValue]] = []
    for batch in range(sizes[0]):
        carried, columns = [_slice(v, 0, batch) for v in state], [_slice(v, 0, batch) for v in streams]
        scanned: list[list[OnnxValue]] = [[] for _ in range(len(body.output) - len(state))]
        for step in range(columns[0].tensor.shape[0]):
            results = graph.run_graph(body, [*carried, *(_slice(v, 0, step) for v in columns)], inside)
            carried = results[: len(state)]
            for found, value in zip(scanned, results[len(state) :], strict=True):
                found.append(value)
        rows.append([*carried, *(_stacked(s, 0, False) for s in scanned)])
    return [_stacked(list(column), 0, False) for column in zip(*rows, strict=True)]


def _slice(value: OnnxValue, axis: int, index: int) -> OnnxValue:
    axis = axis % value.tensor.ndim
    at = tuple(slice(None) if n != axis else index for n in range(value.tensor.ndim))
    return OnnxValue(value.name, lambda: value.tensor[at], None, value.inputs or frozenset({value.name}))


def _stacked(values: list[OnnxValue], axis: int, reverse: bool) -> OnnxValue:
    ordered = values[::-1] if reverse else values
    depends = frozenset().union(*(v.inputs for v in values))
    known = all(v.is_known for v in values)
    return OnnxValue(
        values[0].name,
        lambda: Tensor.stack(*(v.tensor for v in ordered), dim=axis),
        (lambda: np.stack([v.array for v in ordered], axis)) if known else None,
        depends,
    )


CONTROL: dict[str, Callable[[ControlGraph, NodeProto, Inputs], Sequence[OnnxValue]]] = {
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
}


def _items(value: OnnxValue | None) -> list[OnnxValue]:
    assert value is not None
    return value.items if value.items is not None else [value]


def _sequence(node: NodeProto, items: list[OnnxValue]) -> Sequence[OnnxValue]:
    return [OnnxValue(node.output[0], items=items)]


def _position(graph: ControlGraph, node: NodeProto, inputs: Inputs, at: int) -> int | None:
    value = inputs[at] if at < len(inputs) else None
    return None if value is None else int(_known(graph, node, inputs, at, value, "the position").item())


def _at(graph: ControlGraph, node: NodeProto, inputs: Inputs) -> Sequence[OnnxValue]:
    position = _position(graph, node, inputs, 1)
    assert position is not None
    return [_items(inputs[0])[position]]


def _insert(graph: ControlGraph, node: NodeProto, inputs: Inputs) -> Sequence[OnnxValue]:
    items, position = list(_items(inputs[0])), _position(graph, node, inputs, 2)
    assert inputs[1] is not None
    items.insert(len(items) if position is None else position, inputs[1])
    return _sequence(node, items)


def _erase(graph: ControlGraph, node: NodeProto, inputs: Inputs) -> Sequence[OnnxValue]:
    items, position = list(_items(inputs[0])), _position(graph, node, inputs, 1)
    del items[-1 if position is None else position]
    return _sequence(node, items)


def _length(graph: ControlGraph, node: NodeProto, inputs: Inputs) -> Sequence[OnnxValue]:
    return [OnnxValue(node.output[0], None, lambda: np.array(len(_items(inputs[0])), np.int64))]


def _concatenated(graph: ControlGraph, node: NodeProto, inputs: Inputs) -> Sequence[OnnxValue]:
    items, axis = _items(inputs[0]), _attribute(node, "axis")
    if _attribute(node, "new_axis", 0):
        return [_stacked(items, axis, False)]
    depends = frozenset().union(*(v.inputs for v in items))
    known = all(v.is_known for v in items)
    return [
        OnnxValue(
            node.output[0],
            lambda: items[0].tensor.cat(*(v.tensor for v in items[1:]), dim=axis),
            (lambda: np.concatenate([v.array for v in items], axis)) if known else None,
            depends,
        )
    ]


def _split(graph: ControlGraph, node: NodeProto, inputs: Inputs) -> Sequence[OnnxValue]:
    value, axis = inputs[0], _attribute(node, "axis", 0)
    assert value is not None
    size = value.tensor.shape[axis]
    given = inputs[1] if len(inputs) > 1 else None
    parts = np.ones(size, np.int64)
    keep = given is not None or bool(_attribute(node, "keepdims", 1))
    if given is not None:
        parts = _known(graph, node, inputs, 1, given, "the sizes")
        if parts.ndim == 0:
            whole, rest = divmod(size, int(parts))
            parts = np.array([int(parts)] * whole + [rest] * (rest > 0))
    graph.limit.loop(len(parts), 1, graph.describe(node, inputs).where, "the sequence has {} elements")
    tensors = value.tensor.split([int(n) for n in parts], axis)
    kept = [t if keep else t.squeeze(axis) for t in tensors]
    return _sequence(node, [OnnxValue.of_tensor(value.name, t, value.inputs) for t in kept])


def _map(graph: ControlGraph, node: NodeProto, inputs: Inputs) -> Sequence[OnnxValue]:
    body, first = _body(node), inputs[0]
    found: list[list[OnnxValue]] = [[] for _ in body.output]
    where, length = graph.describe(node, inputs).where, len(_items(first))
    inside = graph.limit.loop(length, nodes_of(body), where, "the sequence has {} elements")
    for n in range(length):
        arguments = [v if v.items is None else v.items[n] for v in inputs if v is not None]
        for results, value in zip(found, graph.run_graph(body, arguments, inside), strict=True):
            results.append(value)
    return [OnnxValue(name, items=items) for name, items in zip(node.output, found, strict=True)]


def _identity(graph: ControlGraph, node: NodeProto, inputs: Inputs) -> Sequence[OnnxValue]:
    assert inputs[0] is not None
    return [inputs[0]]


def _has_element(graph: ControlGraph, node: NodeProto, inputs: Inputs) -> Sequence[OnnxValue]:
    present = bool(inputs) and inputs[0] is not None
    return [OnnxValue.of_array(node.output[0], np.array(present))]


SEQUENCES: dict[str, Callable[[ControlGraph, NodeProto, Inputs], Sequence[OnnxValue]]] = {
    "ConcatFromSequence": _concatenated,
    "Identity": _identity,
    "OptionalGetElement": _identity,
    "OptionalHasElement": _has_element,
    "SequenceAt": _at,
    "SequenceConstruct": lambda graph, node, inputs: _sequence(node, [v for v in inputs if v is not None]),
    "SequenceEmpty": lambda graph, node, inputs: _sequence(node, []),
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SequenceMap": _map,
    "SplitToSequence": _split,
}
