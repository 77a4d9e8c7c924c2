"""TFLite files as models."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from tinygrad import Tensor

from tg2hdl_backend import TensorSpec
from tg2hdl_ir import DType, InputError, UnsupportedError
from tg2hdl_tflite import operators  # noqa: F401  registers the builders
from tg2hdl_tflite.contents import Contents
from tg2hdl_tflite.file import TensorRecord, read_file
from tg2hdl_tflite.graph import run_graph
from tg2hdl_tflite.roundings import ROUNDINGS
from tg2hdl_tflite.value import TfliteValue, dtype_of

__all__ = ["DEFAULT_LIMIT", "TfliteModel"]

DEFAULT_LIMIT = 2**28
"""Elements of a tensor."""


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
    signature : str, optional
        The signature whose graph is compiled; by default the main graph is.

    Attributes
    ----------
    inputs : tuple of TensorSpec
        Shapes and types as in the file.
    input_names, output_names : tuple of str
        Those of the signature, or of the tensors.
    signatures : tuple of str
        All that the file has.
    scales : dict of str to (float, int)
        Scale and zero point of the inputs and outputs that are codes.
    labels : dict of str to tuple of str
        By output, the labels of the metadata: one for each position along the last axis.
    in_float : tuple of str
        Parts of the file whose weights are codes and whose arithmetic is float.
    is_integer : bool
        Whether the file computes with codes; there is nothing to quantize.
    operators : frozenset of str
        Types of the operators of the graph.

    Raises
    ------
    InputError
        For a file that cannot be read, or has no such signature.
    UnsupportedError
        For operators, versions or types without an implementation: all of them at once.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        limit: int = DEFAULT_LIMIT,
        rounding: str = "tflite-micro",
        signature: str | None = None,
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
        self.signatures = tuple(s.key for s in self._file.signatures)
        entry = self._file.entry(signature)
        self._graph = self._file.graphs[entry.graph]
        self.__name__ = source.stem
        self.operators = frozenset(o.name for o in self._graph.operators)
        self._outputs = dict(entry.outputs)
        self.input_names = tuple(name for name, _ in entry.inputs)
        self.output_names = tuple(self._outputs)
        if not self.output_names:
            raise InputError(
                f"{source.name} has no output",
                where=str(source),
                hint="export the model with its results as outputs",
            )
        self.inputs: tuple[TensorSpec, ...] = tuple(
            TensorSpec(name, self._graph.tensors[n].shape, self._dtype(self._graph.tensors[n], source))
            for name, n in entry.inputs
        )
        self.scales: dict[str, tuple[float, int]] = {
            name: (float(self._graph.tensors[n].scale[0]), int(self._graph.tensors[n].zero[0]))
            for name, n in (*entry.inputs, *entry.outputs)
            if self._graph.tensors[n].scale.size
        }
        self.labels = self._labels()
        self._contents = Contents(self._file, entry.graph, rounding)
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(f"x{n}", inspect.Parameter.POSITIONAL_ONLY) for n in range(len(self.inputs))]
        )
        self.in_float: tuple[str, ...] = ()
        codes = (t for t in self._graph.tensors if t.data is None and t.kind in ("INT8", "INT16", "UINT8"))
        self.is_integer = any(t.is_quantized for t in codes)
        self._check(
            *(Tensor.empty(*s.shape, dtype=dtype_of(self._kind(n))) for n, s in enumerate(self.inputs))
        )

    def _labels(self) -> dict[str, tuple[str, ...]]:
        """The first label file of the right length for each output."""
        sizes = {name: (self._graph.tensors[n].shape or (0,))[-1] for name, n in self._outputs.items()}
        files = {name: [lines for lines in self._file.labels if len(lines) == n] for name, n in sizes.items()}
        return {name: found[0] for name, found in files.items() if found}

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
            raise InputError(
                f"{len(inputs)} inputs for a model of {len(self.inputs)}",
                where=self.__name__,
                hint="pass " + ", ".join(f"{s.name} {s.shape} {s.dtype}" for s in self.inputs),
            )
        for number, (spec, x) in enumerate(zip(self.inputs, inputs, strict=True)):
            if tuple(x.shape) != spec.shape or x.dtype != dtype_of(self._kind(number)):
                raise InputError(
                    f"input {spec.name!r} has shape {tuple(x.shape)} and type {x.dtype}",
                    where=self.__name__,
                    hint=f"the file declares the shape {spec.shape} and the type {spec.dtype}",
                )
        values = self._run(inputs)
        if self._contents.refused:
            raise self._contents.refused[0]
        self._contents.store()
        found = {
            name: values[n].tensor if n in values else self._constant(n) for name, n in self._outputs.items()
        }
        return next(iter(found.values())) if len(found) == 1 else found

    def _constant(self, number: int) -> Tensor:
        record = self._graph.tensors[number]
        if record.data is None:
            raise UnsupportedError(
                f"output {record.label!r} has no value", where=self.__name__, hint="export the model again"
            )
        return TfliteValue(record, None, record.data).tensor

    def _check(self, *inputs: Tensor) -> None:
        """Build once, and refuse all at once."""
        self._run(inputs)
        if refused := self._contents.refused:
            hints = list(dict.fromkeys(error.hint for error in refused if error.hint))
            raise UnsupportedError(
                f"{self._file.name} has {len(refused)} operator{'s' * (len(refused) > 1)} without hardware",
                notes=tuple(f"{error.where}: {error.message}" for error in refused),
                hint="; ".join(hints),
            )
        for n in self._outputs.values():
            record = self._graph.tensors[n]
            if dtype_of(record.kind) is None:
                raise UnsupportedError(
                    f"output {record.label!r} is {record.kind}",
                    where=self.__name__,
                    hint="export the model with outputs of int8 or float32",
                )
        self.in_float = tuple(self._contents.notes)

    def _run(self, inputs: tuple[Tensor, ...]) -> dict[int, TfliteValue]:
        """Values of all tensors of the graph."""
        self._contents.begin()
        given = [
            TfliteValue(self._graph.tensors[n], x) for n, x in zip(self._graph.inputs, inputs, strict=True)
        ]
        return run_graph(self._graph, given, self._contents)

    def named_weights(self) -> Mapping[str, Tensor]:
        """Weights, tables and factors by their layers, and variables."""
        return {**self._contents.constants, **self._contents.variables}
