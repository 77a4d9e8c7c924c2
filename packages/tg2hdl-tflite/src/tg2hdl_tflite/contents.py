"""Tensors that a model keeps: its constants, and variables with their first contents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor

from tg2hdl_tflite.file import File, Graph, TensorRecord
from tg2hdl_tflite.node import Node
from tg2hdl_tflite.value import Value, dtype_of

__all__ = ["Contents"]

Array = npt.NDArray[Any]


def _names(graph: Graph) -> dict[int, str]:
    """Names of variables by the tensors of their handles."""
    return {
        o.outputs[0]: (o.options.get("SharedName") or b"").decode(errors="replace")
        for o in graph.operators
        if o.name == "VAR_HANDLE" and o.outputs
    }


class Contents:
    """Constants and variables of a model.

    A handle of a variable is found again by its shared name.  First contents are constants that the graph of CALL_ONCE assigns.

    Attributes
    ----------
    constants : dict of str to Tensor
        By the name of the layer and a word after a dot; the same ones in each run.
    variables : dict of str to Tensor
        By name; each run reads them and writes them in place.
    """

    def __init__(self, file: File) -> None:
        self._file = file
        self._handles = _names(file.graphs[0])
        self.constants: dict[str, Tensor] = {}
        self.variables: dict[str, Tensor] = {}
        self._made: dict[tuple[int, str], Any] = {}
        self._first: dict[str, Array] = {}
        self._now: dict[str, Value] = {}
        for operator in file.graphs[0].operators:
            if operator.name == "CALL_ONCE":
                self._initialize(int(operator.options.get("InitSubgraphIndex", 0)))

    def once(self, operator: int, key: str, make: Callable[[], Any]) -> Any:
        """A part of an operator, made when it is first asked for."""
        if (operator, key) not in self._made:
            self._made[operator, key] = make()
        return self._made[operator, key]

    def constant(self, operator: int, label: str, key: str, make: Callable[[], Tensor]) -> Tensor:
        """A constant of an operator by a name that is new."""

        def named() -> Tensor:
            name, count = f"{label}.{key}", 2
            while name in self.constants:
                name, count = f"{label}_{count}.{key}", count + 1
            self.constants[name] = make()
            return self.constants[name]

        found: Tensor = self.once(operator, f"tensor {key}", named)
        return found

    def _initialize(self, number: int) -> None:
        if not 0 < number < len(self._file.graphs):
            return
        graph = self._file.graphs[number]
        names = _names(graph)
        for operator in graph.operators:
            if operator.name != "ASSIGN_VARIABLE" or len(operator.inputs) != 2:
                continue
            record = graph.tensors[operator.inputs[1]]
            if record.data is not None and operator.inputs[0] in names:
                self._first[names[operator.inputs[0]]] = record.data

    def check(self, node: Node) -> None:
        """Refuse a graph of first contents that computes.

        Raises
        ------
        UnsupportedError
            That names its operators.
        """
        number = int(node.option("InitSubgraphIndex"))
        if not 0 < number < len(self._file.graphs):
            raise node.refuse(f"graph {number} of {len(self._file.graphs)}", "export the model again")
        known = {"VAR_HANDLE", "ASSIGN_VARIABLE"}
        graph = self._file.graphs[number]
        if others := sorted({o.name for o in graph.operators} - known):
            raise node.refuse(
                f"first contents of variables are computed by {', '.join(others)}",
                "initialize variables by constants",
            )

    def begin(self) -> None:
        """Forget the contents of the run before."""
        self._now = {}

    def _name(self, node: Node) -> str:
        handle = node.record.inputs[0] if node.record.inputs else -1
        if handle not in self._handles:
            raise node.refuse("a handle that no VAR_HANDLE makes", "keep variables in the main graph")
        return self._handles[handle]

    def _tensor(self, node: Node, name: str, record: TensorRecord) -> Tensor:
        if name not in self._first:
            raise node.refuse(
                f"variable {name!r} has no first contents", "initialize it by a constant, with CALL_ONCE"
            )
        first, dtype = self._first[name], dtype_of(record.kind)
        if dtype is None or first.shape != record.shape or first.dtype != record.numpy:
            raise node.refuse(
                f"variable {name!r} is {first.dtype} of shape {first.shape}, not {record.kind} {record.shape}",
                "export the model again",
            )
        if name not in self.variables:
            self.variables[name] = Tensor(np.ascontiguousarray(first), dtype=dtype).realize()
        return self.variables[name]

    def read(self, node: Node) -> Value:
        """Contents at this place of the program."""
        name = self._name(node)
        if name in self._now:
            return Value(node.output, self._now[name].tensor, None, self._now[name].bounds)
        return Value(node.output, self._tensor(node, name, node.output))

    def assign(self, node: Node) -> None:
        """New contents."""
        name, value = self._name(node), node.input(1)
        self._tensor(node, name, value.record)
        self._now[name] = value

    def store(self) -> None:
        """Write the new contents at the end of a run."""
        for name, value in self._now.items():
            self.variables[name].assign(value.tensor.contiguous())
