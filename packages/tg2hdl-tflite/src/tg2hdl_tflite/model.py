"""TFLite files as models."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from tinygrad import Tensor

from tg2hdl_backend import TensorSpec
from tg2hdl_backend.tinygrad_adapter.origins import made_by
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import InputError, UnsupportedError
from tg2hdl_tflite import operators  # noqa: F401  registers the builders
from tg2hdl_tflite.constant_channels import without_constant_channels
from tg2hdl_tflite.file import TensorRecord, read_file
from tg2hdl_tflite.node import OPERATORS, Contents, Node
from tg2hdl_tflite.value import Value, dtype_of

__all__ = ["DEFAULT_LIMIT", "TfliteModel"]

DEFAULT_LIMIT = 2**28
"""Elements of a tensor."""
ROUNDINGS = ("tflite-micro", "tflite-reference")


class TfliteModel:
    """A TFLite file that can be compiled like any other model.

    Files of int8 give the codes of TensorFlow Lite Micro, bit for bit; their inputs and outputs are the codes of the
    file.  Float files are computed in float32.

    Parameters
    ----------
    path : path
    limit : int
        Most elements of a tensor.
    rounding : {"tflite-micro", "tflite-reference"}
        Whose codes a file of int8 gives: those of TensorFlow Lite Micro, or those of the reference kernels of LiteRT
        (``BUILTIN_REF``), which differ in FULLY_CONNECTED, MUL, BATCH_MATMUL, LEAKY_RELU, LOGISTIC, TANH and RELU6.

    Attributes
    ----------
    inputs : tuple of TensorSpec
        Shapes and types as in the file.
    input_names, output_names : tuple of str
        Those of the signature, or of the tensors.
    in_float : tuple of str
        Parts of the file whose weights are codes and whose arithmetic is float.
    is_integer : bool
        Whether the file computes with codes; there is nothing to quantize.
    operators : frozenset of str
        Types of the operators of the main graph.

    Raises
    ------
    InputError
        For a file that cannot be read.
    UnsupportedError
        For operators, versions or types without an implementation: all of them at once.
    """

    def __init__(
        self, path: str | PathLike[str], *, limit: int = DEFAULT_LIMIT, rounding: str = "tflite-micro"
    ) -> None:
        if rounding not in ROUNDINGS:
            raise InputError(f"rounding is {rounding!r}", hint="choose one of: " + ", ".join(ROUNDINGS))
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise InputError(
                f"limit is {limit!r}", hint="give a positive number of elements, e.g. limit=2**30"
            )
        if not isinstance(path, (str, PathLike)):
            raise InputError(f"{path!r:.60} is not a path of a TFLite file", hint="give e.g. 'model.tflite'")
        source = Path(path)
        self._file = read_file(source, limit)
        self._graph = self._file.graphs[0]
        self.__name__ = source.stem
        self.operators = frozenset(o.name for o in self._graph.operators)
        self.input_names, self.output_names = self._file.input_names, self._file.output_names
        if not self.output_names:
            raise InputError(
                f"{source.name} has no output",
                where=str(source),
                hint="export the model with its results as outputs",
            )
        self.inputs: tuple[TensorSpec, ...] = tuple(
            TensorSpec(name, self._graph.tensors[n].shape, self._dtype(self._graph.tensors[n], source))
            for name, n in zip(self.input_names, self._graph.inputs, strict=True)
        )
        self._contents = Contents(self._file, rounding)
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(f"x{n}", inspect.Parameter.POSITIONAL_ONLY) for n in range(len(self.inputs))]
        )
        self.in_float: tuple[str, ...] = ()
        codes = (t for t in self._graph.tensors if t.data is None and t.kind in ("INT8", "INT16", "UINT8"))
        self.is_integer = any(t.is_quantized for t in codes)
        empty = [Tensor.empty(*s.shape, dtype=dtype_of(self._kind(n))) for n, s in enumerate(self.inputs)]
        values = self._check(*empty)
        self._graph = without_constant_channels(self._graph, values)
        if self._graph is not self._file.graphs[0]:
            self._contents = Contents(self._file, rounding)
            self._check(*empty)

    def _kind(self, number: int) -> str:
        return self._graph.tensors[self._graph.inputs[number]].kind

    def _dtype(self, record: TensorRecord, source: Path) -> DType:
        if record.numpy is None or dtype_of(record.kind) is None:
            raise UnsupportedError(
                f"input {record.label!r} of {source.name} is {record.kind}",
                where=str(source),
                hint="export the model with inputs of int8 or float32",
            )
        return DType.from_tinygrad(dtype_of(record.kind))

    def __call__(self, *inputs: Tensor) -> Any:
        """Outputs of the graph: a Tensor, or a dict of Tensors by name when there are several."""
        if len(inputs) != len(self.inputs):
            raise InputError(f"{len(inputs)} inputs for a model of {len(self.inputs)}", where=self.__name__)
        for number, (spec, x) in enumerate(zip(self.inputs, inputs, strict=True)):
            if tuple(x.shape) != spec.shape or x.dtype != dtype_of(self._kind(number)):
                raise InputError(
                    f"input {spec.name!r} has shape {tuple(x.shape)} and type {x.dtype}",
                    where=self.__name__,
                    hint=f"the file declares the shape {spec.shape} and the type {spec.dtype}",
                )
        values, refused = self._run(inputs, [])
        if refused:
            raise refused[0]
        self._contents.store()
        found = {
            name: values[n].tensor if n in values else self._constant(n)
            for name, n in zip(self.output_names, self._graph.outputs, strict=True)
        }
        return next(iter(found.values())) if len(found) == 1 else found

    def _constant(self, number: int) -> Tensor:
        record = self._graph.tensors[number]
        if record.data is None:
            raise UnsupportedError(
                f"output {record.label!r} has no value", where=self.__name__, hint="export the model again"
            )
        return Value(record, None, record.data).tensor

    def _check(self, *inputs: Tensor) -> dict[int, Value]:
        """Build once, and refuse all at once; the values that were built."""
        notes: list[str] = []
        values, refused = self._run(inputs, notes)
        if refused:
            hints = list(dict.fromkeys(error.hint for error in refused if error.hint))
            raise UnsupportedError(
                f"{self._file.name} has {len(refused)} operator{'s' * (len(refused) > 1)} without hardware",
                notes=tuple(f"{error.where}: {error.message}" for error in refused),
                hint="; ".join(hints),
            )
        for n in self._graph.outputs:
            record = self._graph.tensors[n]
            if dtype_of(record.kind) is None:
                raise UnsupportedError(
                    f"output {record.label!r} is {record.kind}",
                    where=self.__name__,
                    hint="export the model with outputs of int8 or float32",
                )
        self.in_float = tuple(notes)
        return values

    def _run(
        self, inputs: tuple[Tensor, ...], notes: list[str]
    ) -> tuple[dict[int, Value], list[UnsupportedError]]:
        """Values of all tensors; where an operator is refused, placeholders for its results."""
        values = {
            n: Value(self._graph.tensors[n], x) for n, x in zip(self._graph.inputs, inputs, strict=True)
        }
        refused: list[UnsupportedError] = []
        self._contents.begin()
        for record in self._graph.operators:
            node = Node(record, self._graph, values, self._contents, notes)
            try:
                with made_by(f"{node.output.label} ({record.name})" if record.outputs else record.name):
                    results = _build(node)
            except UnsupportedError as error:
                refused.append(error)
                results = [_placeholder(r) for r in node.outputs]
            values.update(zip(record.outputs, results, strict=False))
        return values, refused

    def named_weights(self) -> Mapping[str, Tensor]:
        """Weights, tables and factors by their layers, and variables."""
        return {**self._contents.constants, **self._contents.variables}


def _build(node: Node) -> list[Value]:
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


def _checked(node: Node, place: int, result: Any) -> Value:
    record = node.outputs[place]
    value = result if isinstance(result, Value) else Value(record, result)
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


def _placeholder(record: TensorRecord) -> Value:
    """A tensor of the shape and type of a result that was refused, so that what follows is checked too."""
    dtype = dtype_of(record.kind) or dtype_of("INT32")
    return Value(record, Tensor.empty(*record.shape, dtype=dtype))
