"""One operator of a graph with its operands, options and refusals, and the tensors that a model keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor

from tg2hdl_ir.errors import UnsupportedError
from tg2hdl_tflite.arithmetic import activation_limits
from tg2hdl_tflite.file import File, Graph, OperatorRecord, TensorRecord
from tg2hdl_tflite.options import ACTIVATIONS
from tg2hdl_tflite.value import LIMITS, Value, dtype_of, tensor_of

__all__ = ["OPERATORS", "Contents", "Node", "operator"]

Array = npt.NDArray[Any]
T = TypeVar("T")
Build = Callable[["Node"], Any]

OPERATORS: dict[str, tuple[int, Build]] = {}
"""Newest version and builder by operator."""


def operator(*names: str, version: int) -> Callable[[Build], Build]:
    """Register the builder of operators, up to a version."""

    def register(build: Build) -> Build:
        OPERATORS.update(dict.fromkeys(names, (version, build)))
        return build

    return register


class Node:
    """An operator with the values of its operands.

    Parameters
    ----------
    record : OperatorRecord
    graph : Graph
    values : mapping of int to Value
        Those that are there already, by tensor.
    contents : Contents
        Constants and variables of the model.
    notes : list of str
        Gets a line for each part that is computed in another way than the file says.
    """

    def __init__(
        self,
        record: OperatorRecord,
        graph: Graph,
        values: Mapping[int, Value],
        contents: Contents,
        notes: list[str],
    ) -> None:
        self.record, self.graph, self._values = record, graph, values
        self.contents, self.notes = contents, notes

    @property
    def name(self) -> str:
        """The operator."""
        return self.record.name

    @property
    def is_micro(self) -> bool:
        """Whether codes are those of TensorFlow Lite Micro; else those of LiteRT's reference kernels."""
        return self.contents.rounding == "tflite-micro"

    @property
    def outputs(self) -> tuple[TensorRecord, ...]:
        """Records of the results."""
        return tuple(self.graph.tensors[n] for n in self.record.outputs)

    @property
    def output(self) -> TensorRecord:
        """Record of the first result."""
        return self.outputs[0]

    @property
    def where(self) -> str:
        """The operator and its first result, for messages."""
        named = f", tensor {self.output.label!r}" if self.record.outputs else ""
        return f"operator {self.record.index}, {self.name} version {self.record.version}{named}"

    def has(self, place: int) -> bool:
        """Whether an operand is there."""
        return place < len(self.record.inputs) and self.record.inputs[place] >= 0

    def input(self, place: int) -> Value:
        """An operand.

        Raises
        ------
        UnsupportedError
            Where it is missing, or nothing gives it a value.
        """
        if not self.has(place):
            raise self.refuse(f"input {place} is missing", "export the model again")
        index = self.record.inputs[place]
        if index in self._values:
            return self._values[index]
        record = self.graph.tensors[index]
        if record.data is None:
            raise self.refuse(
                f"tensor {record.label!r} has no value before it is used", "export the model again"
            )
        return Value(record, None, record.data)

    def inputs(self) -> list[Value]:
        """All operands."""
        return [self.input(n) for n in range(len(self.record.inputs))]

    def constant(self, place: int) -> Array:
        """Contents of an operand that must be a constant."""
        value = self.input(place)
        if value.array is None:
            raise self.refuse(
                f"tensor {value.record.label!r} is computed at run time and must be a constant",
                "export the model with fixed shapes, axes and weights",
            )
        return value.array

    def integers(self, place: int) -> tuple[int, ...]:
        """Elements of a constant of integers."""
        return tuple(int(n) for n in self.constant(place).reshape(-1))

    def axes(self, place: int, rank: int) -> tuple[int, ...]:
        """Axes of a constant, counted from the first one."""
        return tuple(self.axis(n, rank) for n in self.integers(place))

    def axis(self, axis: int, rank: int) -> int:
        """An axis, counted from the first one."""
        if not -rank <= axis < rank:
            raise self.refuse(f"axis {axis} of a tensor of {rank} axes", "export the model again")
        return axis % rank

    def axis_index(self, index: int, size: int) -> int:
        """An index within an axis, counted from the first element."""
        if not -size <= index < size:
            raise self.refuse(f"index {index} of {size} elements", "export the model again")
        return index % size

    def option(self, name: str) -> Any:
        """A field of the options."""
        return self.record.options[name]

    @property
    def activation(self) -> str:
        """The fused activation.

        Raises
        ------
        UnsupportedError
            For one without an implementation.
        """
        number = self.record.options.get("FusedActivationFunction", 0)
        name = ACTIVATIONS.get(number, f"{number}")
        if name not in ("NONE", "RELU", "RELU6", "RELU_N1_TO_1"):
            raise self.refuse(
                f"the fused activation {name}", "apply the activation in a layer of its own and export again"
            )
        return name

    def limits(self) -> tuple[int, int]:
        """Codes of the first result that the fused activation allows."""
        scale, zero = self.out_quantization()
        low, high = activation_limits(self.activation, float(scale), zero, *LIMITS[self.output.kind])
        return low, max(low, high)

    def out_quantization(self, place: int = 0) -> tuple[np.float32, int]:
        """Scale and zero point of a result."""
        record = self.outputs[place]
        if record.scale.size != 1 or record.scale[0] <= 0:
            raise self.refuse(
                f"tensor {record.label!r} has {record.scale.size} scales where one above 0 is needed",
                "quantize the model again",
            )
        return np.float32(record.scale[0]), int(record.zero[0])

    def scale_of(self, value: Value) -> np.float32:
        """The one scale of an operand."""
        if value.record.scale.size != 1 or value.record.scale[0] <= 0:
            raise self.refuse(
                f"tensor {value.record.label!r} has {value.record.scale.size} scales where one above 0 is needed",
                "quantize the model again",
            )
        return value.scale

    def is_int8(self, *values: Value) -> bool:
        """Whether operands and first result are int8 codes; False where all are float32.

        Raises
        ------
        UnsupportedError
            For other types.
        """
        kinds = {v.record.kind for v in values} | {self.output.kind}
        if kinds == {"FLOAT32"}:
            return False
        if kinds == {"INT8"}:
            for value in values:
                self.scale_of(value)
            self.out_quantization()
            return True
        raise self.wrong_types(kinds)

    def wrong_types(self, kinds: set[str]) -> UnsupportedError:
        """Refusal of element types."""
        return self.refuse(
            f"it has no form for the types {', '.join(sorted(kinds))}",
            "export the model in float32, or quantized to int8",
        )

    def same_scales(self, *values: Value) -> None:
        """Refuse a result whose codes have another meaning than those of the operands."""
        scale, zero = self.out_quantization()
        for value in values:
            if self.scale_of(value) != scale or value.zero != zero:
                raise self.refuse(
                    f"tensor {value.record.label!r} has another scale or zero point than the result",
                    "convert the model again: the converter inserts QUANTIZE",
                )

    def once(self, key: str, make: Callable[[], T]) -> T:
        """What `make` gives, computed in the first run only."""
        found: T = self.contents.once(self.record.index, key, make)
        return found

    def keep(self, key: str, array: npt.ArrayLike, dtype: Any) -> Tensor:
        """A constant of this operator; one number is a literal of the program, not a memory."""
        found = np.asarray(array)
        if found.size and np.all(found == found.reshape(-1)[0]):
            return tensor_of(found, dtype)
        return self.contents.constant(
            self.record.index, self.output.label.split(";")[0], key, lambda: tensor_of(found, dtype)
        )

    def refuse(self, message: str, hint: str) -> UnsupportedError:
        """An error that names the operator."""
        return UnsupportedError(message, where=self.where, hint=hint)


def _names(graph: Graph) -> dict[int, str]:
    """Names of variables by the tensors of their handles."""
    return {
        o.outputs[0]: (o.options.get("SharedName") or b"").decode(errors="replace")
        for o in graph.operators
        if o.name == "VAR_HANDLE" and o.outputs
    }


class Contents:
    """Constants and variables of a model.

    A handle of a variable is found again by its shared name.  First contents are constants that the graph of CALL_ONCE
    assigns.

    Attributes
    ----------
    rounding : str
        Whose arithmetic codes have, see `TfliteModel`.
    constants : dict of str to Tensor
        By the name of the layer and a word after a dot; the same ones in each run.
    variables : dict of str to Tensor
        By name; each run reads them and writes them in place.
    """

    def __init__(self, file: File, rounding: str) -> None:
        self._file, self.rounding = file, rounding
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
