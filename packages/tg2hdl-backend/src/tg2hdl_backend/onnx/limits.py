"""One limit on the work that a file asks for, checked before the work is done."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import onnx
from onnx import ModelProto, NodeProto, TypeProto, helper, numpy_helper

from tg2hdl_ir.errors import InputError, UnsupportedError

__all__ = ["DEFAULT_LIMIT", "Limit", "check_functions", "check_limit"]

DEFAULT_LIMIT = 2**28
"""Elements of a result; a trip or a node of a function counts as `_NODE` of them."""
_NODE = 2**12
_SMALL = 1024  # Inputs that decide shapes have few elements.

#: Input with sizes, and the least of them; Expand keeps an axis whose size is -1.
_SIZES = {"ConstantOfShape": (0, 0), "Expand": (1, -1), "Tile": (1, 0)}


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


@dataclass(frozen=True)
class Limit:
    """The limit on elements, and how many times the enclosing loops run a node."""

    elements: int = DEFAULT_LIMIT
    trips: int = 1

    def loop(self, trips: int, where: str, what: str = "the loop runs {} times") -> Limit:
        """The limit inside a loop."""
        total = self.trips * max(trips, 1)
        if total * _NODE > self.elements:
            raise _refuse(what.format(total), total * _NODE, self.elements, where)
        return replace(self, trips=total)

    def size(self, count: int, where: str, what: str = "a result") -> None:
        """Refuse an array of more elements."""
        if count > self.elements:
            raise _refuse(f"{what} has {count} elements", count, self.elements, where)

    def node(self, node: NodeProto, version: int, inputs: Sequence[Any], where: str) -> None:
        """Refuse a node whose results, as ONNX infers them, are larger; inputs are (type, shape, array or None)."""
        at, least = _SIZES.get(node.op_type, (len(inputs), 0))
        sizes = inputs[at] if at < len(inputs) else None
        if sizes is not None and sizes[2] is not None and (sizes[2] < least).any():
            raise InputError(
                f"{node.op_type} is given the size {int(sizes[2].min())}",
                where=where,
                hint=f"give sizes of {least} or more",
            )
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
            # Inference raises errors of many kinds for what it does not know; the graph checks the tensors again.
            return
        for result in found.values():
            self.size(math.prod(d.dim_value for d in result.tensor_type.shape.dim), where)


def check_functions(model: ModelProto, limit: int) -> None:
    """Refuse functions that call functions until they are more nodes than the limit."""
    bodies = {(f.domain, f.name): f for f in model.functions}
    counts: dict[tuple[str, str], int] = {}

    def count(node: NodeProto, path: tuple[tuple[str, str], ...]) -> int:
        key = (node.domain, node.op_type)
        inner = sum(count(n, path) for a in node.attribute for g in (a.g, *a.graphs) for n in g.node)
        if key not in bodies:
            return 1 + inner
        if key in path:
            raise InputError(f"function {key[1]!r} calls itself", where=f"node {node.name!r}: {key[1]}")
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
