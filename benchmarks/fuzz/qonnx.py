"""QONNX's quantizers and LRN by the plain operators that define them, so that ONNX Runtime computes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

__all__ = ["DOMAIN", "plain"]

Array = npt.NDArray[Any]
DOMAIN = "qonnx.custom_op.general"


def plain(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model without the operators of QONNX, and without LRN.

    ONNX Runtime's LRN adds and subtracts in a running sum, whose rounding errors are those of its largest square;
    onnx.reference's differs from the standard.
    """
    if not any(n.domain == DOMAIN or n.op_type == "LRN" for n in model.graph.node):
        return model
    known = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []
    for number, node in enumerate(model.graph.node):
        if node.op_type == "LRN":
            nodes += _normalized(number, node, constants)
        else:
            nodes += _expanded(number, node, known, constants) if node.domain == DOMAIN else [node]
    made = onnx.ModelProto.FromString(model.SerializeToString())
    del made.graph.node[:], made.opset_import[:]
    made.graph.node.extend(nodes)
    made.graph.initializer.extend(constants)
    made.opset_import.extend(o for o in model.opset_import if o.domain != DOMAIN)
    return made


def _expanded(
    number: int, node: onnx.NodeProto, known: dict[str, Array], constants: list[onnx.TensorProto]
) -> Iterator[onnx.NodeProto]:
    """``(round(clip(x / scale + zero)) - zero) * scale``, each step in float32."""
    x, scale, zero, bits = node.input
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    count, narrow = 2 ** int(known[bits]), attributes["narrow"]
    low, high = (narrow - count // 2, count // 2 - 1) if attributes["signed"] else (0, count - 1 - narrow)
    names = [f"plain{number}.{n}" for n in range(6)]
    for name, limit in zip(names[:2], (low, high), strict=True):
        constants.append(numpy_helper.from_array(np.array(limit, np.float32), name))
    steps, moved, clipped, rounded = names[2:]
    yield helper.make_node("Div", [x, scale], [steps])
    yield helper.make_node("Add", [steps, zero], [moved])
    yield helper.make_node("Clip", [moved, *names[:2]], [clipped])
    mode = attributes["rounding_mode"].decode()
    if mode == "ROUND_TO_ZERO":
        parts = [f"{clipped}.{n}" for n in ("sign", "size", "floor")]
        yield helper.make_node("Sign", [clipped], [parts[0]])
        yield helper.make_node("Abs", [clipped], [parts[1]])
        exact = " ".join(str(abs(float(n))) for n in (low, high, known[zero].reshape(-1)[0]))
        yield helper.make_node("Floor", [parts[1]], [parts[2]], name=f"plain {number}", doc_string=exact)
        yield helper.make_node("Mul", [parts[0], parts[2]], [rounded])
    else:
        op = {"ROUND": "Round", "FLOOR": "Floor", "CEIL": "Ceil"}[mode]
        exact = " ".join(str(float(n)) for n in (low, high, known[zero].reshape(-1)[0]))
        yield helper.make_node(op, [clipped], [rounded], name=f"plain {number}", doc_string=exact)
    yield helper.make_node("Sub", [rounded, zero], [f"{rounded}.moved"])
    yield helper.make_node("Mul", [f"{rounded}.moved", scale], list(node.output))


def _normalized(
    number: int, node: onnx.NodeProto, constants: list[onnx.TensorProto]
) -> Iterator[onnx.NodeProto]:
    """``x / (bias + alpha * mean of neighbouring channels' squares) ** beta``."""
    attributes = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}
    attributes |= {a.name: helper.get_attribute_value(a) for a in node.attribute}
    size, (x,) = attributes.pop("size"), node.input
    named = {name: np.float32(value) for name, value in attributes.items()} | {"axis": np.array([1])}
    names = {name: f"plain{number}.{name}" for name in named}
    constants += [numpy_helper.from_array(np.asarray(a), names[n]) for n, a in named.items()]
    first = (size - 1) // 2
    steps = [f"plain{number}.{n}" for n in range(7)]
    square, deep, mean, flat, scaled, base, power = steps
    pads = [first, 0, 0, size - 1 - first, 0, 0]
    yield helper.make_node("Mul", [x, x], [square])
    yield helper.make_node("Unsqueeze", [square, names["axis"]], [deep])
    yield helper.make_node(
        "AveragePool", [deep], [mean], kernel_shape=[size, 1, 1], pads=pads, count_include_pad=1
    )
    yield helper.make_node("Squeeze", [mean, names["axis"]], [flat])
    yield helper.make_node("Mul", [flat, names["alpha"]], [scaled])
    yield helper.make_node("Add", [scaled, names["bias"]], [base])
    yield helper.make_node("Pow", [base, names["beta"]], [power])
    yield helper.make_node("Div", [x, power], list(node.output))
