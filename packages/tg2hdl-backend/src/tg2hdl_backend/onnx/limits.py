"""One limit on the work that a file asks for, checked before the work is done."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TypeProto, helper, numpy_helper

from tg2hdl_ir import InputError, UnsupportedError

__all__ = ["DEFAULT_LIMIT", "Limit", "check_functions", "check_limit", "nodes_of"]

DEFAULT_LIMIT = 2**28
"""Elements of a result; each node of a trip or of a function counts as `_NODE` of them."""
_NODE = 2**14
_AXES = 32
_SMALL = 1024  # Inputs that decide shapes have few elements.

#: Input with sizes, and the least of them; Expand keeps an axis whose size is -1.
_SIZES = {"ConstantOfShape": (0, 0), "Expand": (1, -1), "Tile": (1, 0)}

#: Input with an element for each axis of the result, or for each axis that is new.
_AXES_OF = {"ConstantOfShape": 0, "Expand": 1, "Reshape": 1, "Tile": 1, "Unsqueeze": 1}


def check_limit(limit: int) -> int:
    """The limit, when it is a positive integer."""
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise InputError(f"limit is {limit!r}", hint="give a positive number of elements, e.g. limit=2**30")
    return limit


def _refuse(what: str, needed: int, limit: int, where: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what}, beyond the limit of {limit}",
        where=where,
        hint=f"if this is intended, raise the limit: limit={needed}, or --limit {needed}",
    )


def _too_many_axes(count: int, where: str) -> UnsupportedError:
    return UnsupportedError(f"a result has {count} axes", where=where, hint=f"use at most {_AXES}")


@dataclass(frozen=True)
class Limit:
    """The limit on elements, and how many times the enclosing loops run a node."""

    elements: int = DEFAULT_LIMIT
    trips: int = 1

    def loop(
        self, trips: int, nodes: int, where: str, what: str = "the loop runs {} times", cost: int = 1
    ) -> Limit:
        """The limit inside a loop with a body of some nodes, which may cost more than others.

        Parameters
        ----------
        trips : int
            Iterations.
        nodes : int
            Of the body.
        where : str
            Node, for the error.
        what : str, default "the loop runs {} times"
            Text with a place for the iterations.
        cost : int, default 1
            Of a node, in ordinary nodes.

        Raises
        ------
        UnsupportedError
            When the limit is exceeded.
        """
        total = self.trips * max(trips, 1)
        needed = total * nodes * cost * _NODE
        if needed > self.elements:
            of_nodes = f" with {nodes} nodes" if nodes > 1 else ""
            raise _refuse(what.format(total) + of_nodes, needed, self.elements, where)
        return replace(self, trips=total)

    def size(self, count: int, where: str, what: str = "a result") -> None:
        """Refuse an array of more elements.

        Parameters
        ----------
        count : int
            Elements.
        where : str
            Node, for the error.
        what : str, default "a result"
            Text that names the array.

        Raises
        ------
        UnsupportedError
            When the limit is exceeded.
        """
        if count > self.elements:
            raise _refuse(f"{what} has {count} elements", count, self.elements, where)

    def node(self, node: NodeProto, version: int, inputs: Sequence[Any], where: str) -> None:
        """Refuse a node whose results, as ONNX infers them, are larger; inputs are (type, shape, array or None).

        Parameters
        ----------
        node : NodeProto
        version : int
            Of its operator set.
        inputs : sequence
            Type, shape, and contents if they are known; None for an absent input.
        where : str
            Node, for the error.

        Raises
        ------
        UnsupportedError
            When the limit is exceeded.
        """
        at, least = _SIZES.get(node.op_type, (len(inputs), 0))
        sizes = inputs[at] if at < len(inputs) else None
        if sizes is not None and sizes[2] is not None and (sizes[2] < least).any():
            raise InputError(
                f"{node.op_type} is given the size {int(sizes[2].min())}",
                where=where,
                hint=f"give sizes of {least} or more",
            )
        at = _AXES_OF.get(node.op_type, len(inputs))
        axes = inputs[at] if at < len(inputs) else None
        if axes is not None and math.prod(axes[1]) > _AXES:
            kept = len(inputs[0][1]) if node.op_type == "Unsqueeze" else 0
            raise _too_many_axes(math.prod(axes[1]) + kept, where)
        if node.op_type == "Range" and all(i is not None and i[2] is not None for i in inputs):
            start, stop, step = (float(i[2].item()) for i in inputs)
            if step and math.isfinite(count := (stop - start) / step):
                self.size(math.ceil(count), where)
        try:
            schema = onnx.defs.get_schema(
                node.op_type, version, "" if node.domain == "ai.onnx" else node.domain
            )
            types, data = {}, {}
            for name, value in zip(node.input, inputs, strict=False):
                if value is None:
                    continue
                element, shape, array = value
                types[name] = helper.make_tensor_type_proto(element, shape)
                if array is not None and array.size <= _SMALL:
                    data[name] = numpy_helper.from_array(array, name)
            found: Mapping[str, TypeProto] = onnx.shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=[helper.make_opsetid(node.domain, version)]
            )
        except MemoryError:
            raise
        except Exception:
            # Inference raises errors of many kinds for unknown operators; the graph checks the tensors again.
            return
        shapes = [[d.dim_value for d in result.tensor_type.shape.dim] for result in found.values()]
        for shape in shapes:
            if len(shape) > _AXES:
                raise _too_many_axes(len(shape), where)
            self.size(math.prod(shape), where)
        for count, what in _on_the_way(node, inputs, shapes[0] if shapes else []):
            self.size(count, where, what)


def _on_the_way(node: NodeProto, inputs: Sequence[Any], result: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Elements that an operator computes as intermediate results, even if its result is small."""
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    shapes = [() if value is None else tuple(value[1]) for value in inputs]
    sides = shapes[0][2:] if shapes else ()
    kernel = given.get("kernel_shape") or (shapes[1][2:] if node.op_type in ("Conv", "ConvInteger") else ())
    if kernel and len(kernel) == len(sides):
        pads, dilations = (
            given.get("pads") or [0] * (2 * len(sides)),
            given.get("dilations") or [1] * len(sides),
        )
        extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        padded = [s + a + b for s, a, b in zip(sides, pads, pads[len(sides) :], strict=False)]
        yield math.prod(shapes[0][:2]) * math.prod(map(max, padded, extents)), "the padded input"
        if "Pool" in node.op_type:
            yield math.prod(result) * math.prod(kernel), "the array of its windows"
    if node.op_type == "RoiAlign":
        yield math.prod(result) * max(given.get("sampling_ratio", 0), 1) ** 2, "the grid of its samples"
    if node.op_type in ("DFT", "STFT"):
        sizes = [
            int(v[2].item()) for v in inputs[1:] if v is not None and v[2] is not None and v[2].size == 1
        ]
        yield max([*sizes, *result[1:-1], *(s[0] for s in shapes[2:3] if s)], default=0) ** 2, "its matrix"


def nodes_of(graph: GraphProto) -> int:
    """Nodes of a graph and of the graphs in its nodes, at least one."""
    inner = (g for n in graph.node for a in n.attribute for g in (a.g, *a.graphs) if g.node)
    return max(1, len(graph.node) + sum(map(nodes_of, inner)))


def check_functions(model: ModelProto, limit: int) -> None:
    """Refuse functions that call functions until they are more nodes than the limit.

    Parameters
    ----------
    model : ModelProto
    limit : int
        As of `Limit`.

    Raises
    ------
    InputError
        For a function that calls itself.
    UnsupportedError
        When the limit is exceeded.
    """
    bodies = {(f.domain, f.name): f for f in model.functions}
    counts: dict[tuple[str, str], int] = {}

    def count(node: NodeProto, path: tuple[tuple[str, str], ...]) -> int:
        key = (node.domain, node.op_type)
        inner = sum(count(n, path) for a in node.attribute for g in (a.g, *a.graphs) for n in g.node)
        if key not in bodies:
            return 1 + inner
        if key in path:
            raise InputError(
                f"function {key[1]!r} calls itself",
                where=f"node {node.name!r}: {key[1]}",
                hint="check the file with onnx.checker.check_model",
            )
        if key not in counts:
            counts[key] = sum(count(n, (*path, key)) for n in bodies[key].node)
        return counts[key] + inner

    if not bodies:
        return
    total = 0
    for node in model.graph.node:
        total += count(node, ())
        if total * _NODE > limit and (node.domain, node.op_type) in bodies:
            name = node.name or next(iter(node.output), "")
            raise _refuse(
                f"its functions are {total} nodes", total * _NODE, limit, f"node {name!r}: {node.op_type}"
            )
