"""A graph of tensors as a function that tinygrad runs and `capture` compiles."""

from __future__ import annotations

import inspect
from keyword import iskeyword
from typing import Any

import numpy.typing as npt
from tinygrad import Device, Tensor
from tinygrad.uop.ops import Ops

from tg2hdl_backend.tinygrad_adapter.capture import substitute
from tg2hdl_backend.tinygrad_adapter.division import quotient
from tg2hdl_backend.tinygrad_adapter.model_inputs import TensorSpec, tinygrad_dtype
from tg2hdl_backend.tinygrad_adapter.origins import made_by
from tg2hdl_ir import UnsupportedError
from tg2hdl_ir.tensors import TensorGraph, TensorNode

__all__ = ["TensorFunction", "stored_tensor"]


class TensorFunction:
    """A graph that is called with Tensors.

    Parameters
    ----------
    graph : TensorGraph

    Attributes
    ----------
    inputs : tuple of TensorSpec
    input_names : tuple of str
    """

    def __init__(self, graph: TensorGraph) -> None:
        self.graph = graph
        self.__name__ = graph.name
        self.inputs = tuple(
            TensorSpec(name, graph.nodes[n].shape, graph.nodes[n].dtype)
            for name, n in zip(graph.input_names, graph.inputs, strict=True)
        )
        self.input_names = graph.input_names
        # A file's names need not be Python's.
        named = all(n.isidentifier() and not iskeyword(n) for n in self.input_names)
        self.__signature__ = inspect.Signature(
            [
                inspect.Parameter(s.name if named else f"x{n}", inspect.Parameter.POSITIONAL_OR_KEYWORD)
                for n, s in enumerate(self.inputs)
            ]
        )
        self._used = {*graph.outputs, *(source for node in graph.nodes for source in node.sources)}
        self._constants = {
            number: Tensor(node.arg, dtype=tinygrad_dtype(node.dtype))
            for number, node in enumerate(graph.nodes)
            if number in self._used and node.op == "const" and node.arg.size > 1
        }

        self._labels = _inherited_labels(graph)

    def __call__(self, *inputs: Tensor) -> Any:
        """Results in the structure of the graph."""
        values: dict[int, Tensor] = dict(self._constants)
        values.update(zip(self.graph.inputs, inputs, strict=True))
        for number, (node, label) in enumerate(zip(self.graph.nodes, self._labels, strict=True)):
            if number not in values and number in self._used:
                with made_by(label):
                    values[number] = _apply(node, [values[s] for s in node.sources])
        outputs = [values[n] for n in self.graph.outputs]
        if self.graph.structure is not None:
            return substitute(self.graph.structure, outputs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def named_weights(self) -> dict[str, Tensor]:
        """Constants by the names of the graph."""
        found: dict[str, Tensor] = {}
        for number, tensor in self._constants.items():
            label = self.graph.nodes[number].label or "constant"
            found[label if label not in found else f"{label}_{number}"] = tensor
        return found


def _inherited_labels(graph: TensorGraph) -> list[str]:
    """Labels of all nodes: one without a label, such as a rounding, has that of its latest labelled operand."""
    labels: list[str] = []
    for node in graph.nodes:
        computed = (
            s for s in sorted(node.sources, reverse=True) if graph.nodes[s].op not in ("const", "input")
        )
        labels.append(node.label or next((labels[s] for s in computed if labels[s]), ""))
    return labels


def stored_tensor(array: npt.NDArray[Any]) -> Tensor:
    """A Tensor with contents of its own, which a model may update."""
    return Tensor(array, device=Device.DEFAULT).realize()


def _apply(node: TensorNode, operands: list[Tensor]) -> Tensor:
    """One operation, in exactly the type of the node."""
    if node.op == "const":
        value = node.arg.item() if node.arg.ndim == 0 else node.arg.reshape(-1)[0].item()
        return Tensor(value, dtype=tinygrad_dtype(node.dtype)).reshape(node.shape)
    x = operands[0]
    if node.op == "expand" and x.shape != node.shape and len(x.shape) < len(node.shape):
        x = x.reshape((1,) * (len(node.shape) - len(x.shape)) + tuple(x.shape))
    if node.op in _MOVEMENTS:
        moved: Tensor = _MOVEMENTS[node.op](x, node)
        return moved
    if node.op == "cast":
        return x.cast(tinygrad_dtype(node.dtype))
    if node.op == "sum":
        return x.sum(node.arg, dtype=tinygrad_dtype(node.dtype))
    if node.op == "max":
        return x.max(node.arg)
    if node.op == "prod":
        return x.prod(node.arg)
    if node.op == "gather":
        # In one kernel with a pad, tinygrad would read the index outside of its buffer.
        return operands[0][operands[1]].contiguous()
    operation = getattr(Ops, node.op, None)
    if operation is None:
        raise UnsupportedError(
            f"tinygrad has no operation {node.op!r}",
            where=f"node {node.label or node.op}",
            hint="use the operations of tg2hdl_ir.tensors; check_graph names all that do not fit",
        )
    shaped = [t.expand(node.shape) if t.shape != node.shape else t for t in operands]
    return _elementwise(node, shaped)


_MOVEMENTS: dict[str, Any] = {
    "reshape": lambda x, node: x.reshape(node.shape),
    "expand": lambda x, node: x.expand(node.shape),
    "permute": lambda x, node: x.permute(node.arg),
    "pad": lambda x, node: x.pad(node.arg),
    "shrink": lambda x, node: x.shrink(node.arg),
    "flip": lambda x, node: x.flip(node.arg),
}


def _elementwise(node: TensorNode, operands: list[Tensor]) -> Tensor:
    result: Tensor = _OPERATIONS[node.op](*operands)
    return result


_OPERATIONS: dict[str, Any] = {
    "ADD": lambda a, b: a + b,
    "SUB": lambda a, b: a - b,
    "MUL": lambda a, b: a * b,
    "NEG": lambda a: -a,
    "MAX": lambda a, b: a.maximum(b),
    "FDIV": quotient,
    "RECIPROCAL": lambda a: a.reciprocal(),
    "EXP2": lambda a: a.exp2(),
    "LOG2": lambda a: a.log2(),
    "SIN": lambda a: a.sin(),
    "SQRT": lambda a: a.sqrt(),
    "TRUNC": lambda a: a.trunc(),
    "CMPLT": lambda a, b: a < b,
    "CMPNE": lambda a, b: a != b,
    "CMPEQ": lambda a, b: a == b,
    "WHERE": lambda c, a, b: c.where(a, b),
    "AND": lambda a, b: a & b,
    "OR": lambda a, b: a | b,
    "XOR": lambda a, b: a ^ b,
    "SHL": lambda a, b: a << b,
    "SHR": lambda a, b: a >> b,
    "POW": lambda a, b: a**b,
    "CDIV": lambda a, b: a.div(b, rounding_mode="trunc"),
    "CMOD": lambda a, b: a - a.div(b, rounding_mode="trunc") * b,
}
