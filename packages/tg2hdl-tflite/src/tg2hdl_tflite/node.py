"""One operator of a graph with its operands, options and refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor

from tg2hdl_ir import UnsupportedError
from tg2hdl_tflite.arithmetic import activation_limits
from tg2hdl_tflite.contents import Contents
from tg2hdl_tflite.file import OperatorRecord, TensorRecord, TfliteGraph
from tg2hdl_tflite.options import ACTIVATIONS
from tg2hdl_tflite.value import LIMITS, TfliteValue, tensor_of

__all__ = ["OPERATORS", "TfliteNode", "operator"]

Array = npt.NDArray[Any]
T = TypeVar("T")
Build = Callable[["TfliteNode"], Any]

OPERATORS: dict[str, tuple[int, Build]] = {}
"""Newest version and builder by operator."""


def operator(*names: str, version: int) -> Callable[[Build], Build]:
    """Register the builder of operators, up to a version."""

    def register(build: Build) -> Build:
        OPERATORS.update(dict.fromkeys(names, (version, build)))
        return build

    return register


class TfliteNode:
    """An operator with the values of its operands.

    Parameters
    ----------
    record : OperatorRecord
    graph : TfliteGraph
    values : mapping of int to TfliteValue
        Those that are there already, by tensor.
    contents : Contents
        Constants and variables of the model.
    """

    def __init__(
        self,
        record: OperatorRecord,
        graph: TfliteGraph,
        values: Mapping[int, TfliteValue],
        contents: Contents,
    ) -> None:
        self.record, self.graph, self._values = record, graph, values
        self.contents = contents

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
        graph = f"graph {self.graph.name!r}, " if self.contents.depth else ""
        return f"{graph}operator {self.record.index}, {self.name} version {self.record.version}{named}"

    def has(self, place: int) -> bool:
        """Whether an operand is there."""
        return place < len(self.record.inputs) and self.record.inputs[place] >= 0

    def input(self, place: int) -> TfliteValue:
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
        return TfliteValue(record, None, record.data)

    def inputs(self) -> list[TfliteValue]:
        """All operands."""
        return [self.input(n) for n in range(len(self.record.inputs))]

    def state(self, place: int) -> TfliteValue:
        """An operand that keeps its contents from one run to the next."""
        record = self.graph.tensors[self.record.inputs[place]] if self.has(place) else None
        if record is None or not record.is_variable:
            raise self.refuse(f"input {place} is not a variable tensor", "export the model again")
        return self.contents.state(self.refuse, record)

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
        """Axes of a constant, counted from the first one.

        Parameters
        ----------
        place : int
            Of the operand, a constant of integers.
        rank : int
            Axes of the tensor to which they belong.

        Raises
        ------
        UnsupportedError
            As `axis`.
        """
        return tuple(self.axis(n, rank) for n in self.integers(place))

    def axis(self, axis: int, rank: int) -> int:
        """An axis, counted from the first one.

        Parameters
        ----------
        axis : int
            Negative ones count from the last.
        rank : int
            Axes of the tensor.

        Raises
        ------
        UnsupportedError
            For an axis that the tensor does not have.
        """
        if not -rank <= axis < rank:
            raise self.refuse(f"axis {axis} of a tensor of {rank} axes", "export the model again")
        return axis % rank

    def axis_index(self, index: int, size: int) -> int:
        """An index within an axis, counted from the first element.

        Parameters
        ----------
        index : int
            Negative ones count from the last.
        size : int
            Elements along the axis.

        Raises
        ------
        UnsupportedError
            For an index beyond the axis.
        """
        if not -size <= index < size:
            raise self.refuse(f"index {index} of {size} elements", "export the model again")
        return index % size

    def option(self, name: str) -> Any:
        """A field of the options."""
        return self.record.options[name]

    def subgraph(self, option: str) -> TfliteGraph:
        """The other graph that a field of the options names."""
        number = int(self.option(option))
        graph = self.contents.graph(number)
        if graph is None:
            raise self.refuse(f"graph {number}, which is not in the file", "export the model again")
        return graph

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

    def out_quantization(self) -> tuple[np.float32, int]:
        """Scale and zero point of the first result."""
        return self._one_scale(self.output), int(self.output.zero[0])

    def scale_of(self, value: TfliteValue) -> np.float32:
        """The one scale of an operand."""
        return self._one_scale(value.record)

    def _one_scale(self, record: TensorRecord) -> np.float32:
        if record.scale.size != 1 or record.scale[0] <= 0:
            raise self.refuse(
                f"tensor {record.label!r} has {record.scale.size} scales where one above 0 is needed",
                "quantize the model again",
            )
        return np.float32(record.scale[0])

    def is_codes(self, *values: TfliteValue, wide: bool = False) -> bool:
        """Whether operands and first result are codes of one type; False where all are float32.

        Parameters
        ----------
        wide : bool
            Whether there is a form for int16, whose zero points are 0; else int8 only.

        Raises
        ------
        UnsupportedError
            For other types.
        """
        kinds = {v.record.kind for v in values} | {self.output.kind}
        if kinds == {"FLOAT32"}:
            return False
        if kinds == {"INT8"} or (wide and kinds == {"INT16"}):
            zeros = [self.out_quantization()[1]]
            for value in values:
                self.scale_of(value)
                zeros.append(value.zero)
            if kinds == {"INT16"} and any(zeros):
                raise self.refuse(
                    f"int16 codes with the zero point {next(z for z in zeros if z)}",
                    "quantize the model again",
                )
            return True
        raise self.wrong_types(kinds)

    @property
    def is_wide(self) -> bool:
        """Whether the result is of int16."""
        return self.output.kind == "INT16"

    def micro_only(self) -> None:
        """Refuse the arithmetic of LiteRT's reference kernels where there is no form for it."""
        if not self.is_micro:
            raise self.refuse(
                f"there is no form of LiteRT's reference kernel for {self.output.kind}",
                "use rounding='tflite-micro'",
            )

    def wrong_types(self, kinds: set[str]) -> UnsupportedError:
        """Refusal of element types."""
        return self.refuse(
            f"it has no form for the types {', '.join(sorted(kinds))}",
            "export the model in float32, or quantized to int8",
        )

    def same_scales(self, *values: TfliteValue) -> None:
        """Refuse a result whose codes have another meaning than those of the operands."""
        scale, zero = self.out_quantization()
        for value in values:
            if self.scale_of(value) != scale or value.zero != zero:
                raise self.refuse(
                    f"tensor {value.record.label!r} has another scale or zero point than the result",
                    "convert the model again: the converter inserts QUANTIZE",
                )

    def once(self, key: str, make: Callable[[], T]) -> T:
        """The result of `make`, which is called in the first run only.

        Parameters
        ----------
        key : str
            Unique within the operator.
        make : callable
        """
        found: T = self.contents.once(self.record.index, key, make)
        return found

    def keep(self, key: str, array: npt.ArrayLike, dtype: Any) -> Tensor:
        """A constant of this operator; one number is a literal of the program, not a memory.

        Parameters
        ----------
        key : str
            Unique within the operator; part of the constant's name.
        array : array_like
        dtype : tinygrad DType
            Of the tensor.
        """
        found = np.asarray(array)
        if found.size and np.all(found == found.reshape(-1)[0]):
            return tensor_of(found, dtype)
        return self.contents.constant(
            self.record.index, self.output.label.split(";")[0], key, lambda: tensor_of(found, dtype)
        )

    def refuse(self, message: str, hint: str) -> UnsupportedError:
        """An error that names the operator.

        Parameters
        ----------
        message : str
            What cannot be compiled.
        hint : str
            What to do instead.
        """
        return UnsupportedError(message, where=self.where, hint=hint)
