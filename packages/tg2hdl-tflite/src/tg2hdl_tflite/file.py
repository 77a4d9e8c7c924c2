"""A .tflite file as plain records, every offset and index of it checked."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite

from tg2hdl_ir import InputError
from tg2hdl_tflite.labels import label_files
from tg2hdl_tflite.options import OPTIONS, read_options

__all__ = [
    "File",
    "OperatorRecord",
    "Signature",
    "TensorRecord",
    "TfliteGraph",
    "is_tflite_file",
    "read_file",
]

Array = npt.NDArray[Any]

_TYPES: dict[int, str] = {
    value: name
    for name, value in vars(tflite.TensorType).items()
    if name.isupper() and isinstance(value, int)
}
_NUMPY: dict[str, Any] = {
    "FLOAT32": np.float32,
    "FLOAT16": np.float16,
    "INT32": np.int32,
    "UINT8": np.uint8,
    "INT64": np.int64,
    "BOOL": np.bool_,
    "INT16": np.int16,
    "INT8": np.int8,
    "FLOAT64": np.float64,
    "UINT64": np.uint64,
    "UINT32": np.uint32,
    "UINT16": np.uint16,
}
_OPERATORS: dict[int, str] = {
    value: name
    for name, value in vars(tflite.BuiltinOperator).items()
    if name.isupper() and isinstance(value, int)
}
_FAULTS = (struct.error, ValueError, IndexError, TypeError, OverflowError, AttributeError, KeyError)
"""Errors of the schema's readers where an offset leads out of the file."""


@dataclass(frozen=True, eq=False)
class TensorRecord:
    """A tensor of a graph.

    Parameters
    ----------
    index : int
    name : str
    shape : tuple of int
    kind : str
        Element type by the name that the schema has, such as ``INT8``.
    scale : ndarray of float32
        Of one element, or one for each slice of `axis`; empty where the tensor is not quantized.
    zero : ndarray of int64
        Zero points, as many as scales.
    axis : int
    data : ndarray or None
        Of a constant.
    is_variable : bool
        Whether it keeps its contents from one run to the next.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    kind: str
    scale: npt.NDArray[np.float32]
    zero: npt.NDArray[np.int64]
    axis: int
    data: Array | None
    is_variable: bool

    @property
    def is_quantized(self) -> bool:
        """Whether the elements are codes."""
        return bool(self.scale.size) and self.kind in ("INT8", "UINT8", "INT16", "INT32", "INT4")

    @property
    def numpy(self) -> Any:
        """numpy's element type; None where there is none."""
        return _NUMPY.get("INT8" if self.kind == "INT4" else self.kind)

    @property
    def label(self) -> str:
        """The name, or the index where it has none."""
        return self.name or f"tensor {self.index}"


@dataclass(frozen=True, eq=False)
class OperatorRecord:
    """An operator of a graph; -1 among the inputs is an optional one that is missing."""

    index: int
    name: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    intermediates: tuple[int, ...]
    options: dict[str, Any]


@dataclass(frozen=True, eq=False)
class TfliteGraph:
    """Tensors and operators, in the order of execution."""

    name: str
    tensors: tuple[TensorRecord, ...]
    operators: tuple[OperatorRecord, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Signature:
    """A graph that callers see, with names for its inputs and outputs.

    Parameters
    ----------
    key : str
    graph : int
        Its place among the graphs of the file.
    inputs, outputs : tuple of (str, int)
        Names with tensors of the graph.
    """

    key: str
    graph: int
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]


@dataclass(frozen=True, eq=False)
class File:
    """A model: its main graph is the first one.

    Parameters
    ----------
    name : str
        Of the file.
    graphs : tuple of TfliteGraph
    signatures : tuple of Signature
        In the order of the file.
    labels : tuple of tuple of str
        Lines of the text files that the metadata packs into an archive at the end of the file.
    """

    name: str
    graphs: tuple[TfliteGraph, ...]
    signatures: tuple[Signature, ...]
    labels: tuple[tuple[str, ...], ...] = ()

    def entry(self, key: str | None) -> Signature:
        """The graph to compile, with distinct names for all its inputs and for the outputs that the signature has.

        Parameters
        ----------
        key : str or None
            Of a signature; None is the main graph.

        Raises
        ------
        InputError
            Where the file has no such signature.
        """
        found = [s for s in self.signatures if (s.graph == 0 if key is None else s.key == key)]
        if key is not None and not found:
            known = ", ".join(repr(s.key) for s in self.signatures)
            raise InputError(
                f"{self.name} has no signature {key!r}",
                hint=f"choose one of: {known}" if known else "leave it out: the file has no signatures",
            )
        chosen = found[0] if found else Signature("", 0, (), ())
        graph = self.graphs[chosen.graph]
        given = {n: name for name, n in reversed(chosen.inputs)}
        inputs = [(given.get(n, graph.tensors[n].label), n) for n in graph.inputs]
        outputs = [(name, n) for n in dict.fromkeys(graph.outputs) for name, m in chosen.outputs if m == n]
        outputs = outputs or [(graph.tensors[n].label, n) for n in graph.outputs]
        return Signature(chosen.key, chosen.graph, _distinct(inputs), _distinct(outputs))


def is_tflite_file(head: bytes) -> bool:
    """Whether a file begins as TFLite files do."""
    return len(head) >= 8 and head[4:8] == b"TFL3"


def read_file(path: Path, limit: int) -> File:
    """Records of a file.

    Parameters
    ----------
    limit : int
        Most elements of a tensor.

    Raises
    ------
    InputError
        For a file that is missing or is not a TFLite model, or an index or size in it that is out of range.
    """
    if not path.is_file():
        raise InputError(f"no file {str(path)!r}", hint="give the path of a .tflite file")
    data = path.read_bytes()
    if not is_tflite_file(data):
        raise InputError(
            f"{path.name} is not a TFLite model: bytes 4 to 7 are {data[4:8]!r}, not b'TFL3'",
            where=str(path),
            hint="export the model again; a damaged download is often a page of text",
        )
    try:
        return _TfliteReader(data, path.name, limit).file()
    except _FAULTS as error:
        raise InputError(
            f"{path.name} is damaged: {error}"
            if isinstance(error, _Damaged)
            else f"{path.name} is damaged: an offset leads out of the file",
            where=str(path),
            hint="copy or export the file again",
        ) from error


class _Damaged(ValueError):
    """Contents that contradict each other."""


class _TfliteReader:
    """Reads one file; faults are those of `_FAULTS`."""

    def __init__(self, data: bytes, name: str, limit: int) -> None:
        self._data, self._name, self._limit = data, name, limit
        self._model = tflite.Model.GetRootAsModel(data, 0)
        codes = [self._model.OperatorCodes(i) for i in range(self._count(self._model.OperatorCodesLength()))]
        self._codes = [self._code(code) for code in codes]
        self._buffers: dict[int, bytes | None] = {}

    def file(self) -> File:
        count = self._count(self._model.SubgraphsLength())
        if not count:
            raise _Damaged("it has no graph")
        graphs = tuple(self._graph(self._model.Subgraphs(n)) for n in range(count))
        return File(self._name, graphs, tuple(self._signatures(count)), label_files(self._data))

    def _count(self, length: int) -> int:
        """A length of a vector, whose elements need room in the file."""
        if not 0 <= length <= len(self._data):
            raise _Damaged(f"a list has {length} elements")
        return length

    def _code(self, code: Any) -> tuple[str, int]:
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        name = _OPERATORS.get(number, f"operator {number}")
        if name == "CUSTOM":
            custom = code.CustomCode()
            name = f"CUSTOM {custom.decode(errors='replace') if custom else ''}".strip()
        return name, int(code.Version())

    def _buffer(self, index: int) -> bytes | None:
        if not 0 <= index < self._model.BuffersLength():
            raise _Damaged(f"a tensor names buffer {index} of {self._model.BuffersLength()}")
        if index not in self._buffers:
            buffer = self._model.Buffers(index)
            length = self._count(buffer.DataLength())
            outside = getattr(buffer, "Offset", int)()
            if outside > 1:
                # Data behind the FlatBuffer, as files beyond 2 GB have it.
                if outside + buffer.Size() > len(self._data):
                    raise _Damaged(f"buffer {index} ends behind the file")
                self._buffers[index] = self._data[outside : outside + buffer.Size()]
            else:
                self._buffers[index] = buffer.DataAsNumpy().tobytes() if length else None
        return self._buffers[index]

    def _graph(self, graph: Any) -> TfliteGraph:
        tensors = tuple(self._tensor(graph.Tensors(n), n) for n in range(self._count(graph.TensorsLength())))
        operators = tuple(
            self._operator(graph.Operators(n), n, len(tensors))
            for n in range(self._count(graph.OperatorsLength()))
        )
        inputs, outputs = (self._indices(graph, kind, len(tensors)) for kind in ("Inputs", "Outputs"))
        if -1 in (*inputs, *outputs):
            raise _Damaged("an input or output of a graph is missing")
        return TfliteGraph(_text(graph.Name()), tensors, operators, inputs, outputs)

    def _indices(self, table: Any, kind: str, tensors: int) -> tuple[int, ...]:
        found = tuple(
            int(getattr(table, kind)(n)) for n in range(self._count(getattr(table, f"{kind}Length")()))
        )
        if unfit := [n for n in found if not -1 <= n < tensors]:
            raise _Damaged(f"tensor {unfit[0]} is used and there are {tensors}")
        return found

    def _tensor(self, tensor: Any, index: int) -> TensorRecord:
        shape = tuple(int(tensor.Shape(n)) for n in range(self._count(tensor.ShapeLength())))
        name, kind = _text(tensor.Name()), _TYPES.get(tensor.Type(), f"type {tensor.Type()}")
        label = name or f"tensor {index}"
        if any(size < 0 for size in shape):
            raise _Damaged(f"{label} has the shape {shape}")
        if math.prod(shape) > self._limit:
            raise InputError(
                f"{label} of {self._name} has {math.prod(shape)} elements, beyond the limit of {self._limit}",
                hint=f"if this is intended, raise the limit: limit={math.prod(shape)}, "
                f"or --limit {math.prod(shape)}",
            )
        scale, zero, axis = self._quantization(tensor.Quantization(), shape, label)
        raw = self._buffer(tensor.Buffer())
        data = None if raw is None else self._array(raw, kind, shape, label)
        if tensor.Sparsity() is not None:
            raise InputError(
                f"{label} of {self._name} is a sparse tensor",
                hint="export the model with dense weights",
            )
        return TensorRecord(index, name, shape, kind, scale, zero, axis, data, bool(tensor.IsVariable()))

    def _quantization(
        self, given: Any, shape: tuple[int, ...], label: str
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], int]:
        none = np.zeros(0, np.float32), np.zeros(0, np.int64), 0
        if given is None or not (count := self._count(given.ScaleLength())):
            return none
        scale = np.array([given.Scale(n) for n in range(count)], np.float32)
        zeros = self._count(given.ZeroPointLength())
        zero = np.array([given.ZeroPoint(n) for n in range(zeros)] or [0], np.int64)
        axis = int(given.QuantizedDimension())
        if zeros not in (0, 1, count) or (
            count > 1 and not (0 <= axis < len(shape) and shape[axis] == count)
        ):
            raise _Damaged(f"{label} of shape {shape} has {count} scales and {zeros} zero points")
        if not (np.all(np.isfinite(scale)) and np.all(scale >= 0)):
            raise _Damaged(f"{label} has a scale that is negative or not finite")
        if np.any(np.abs(zero) >= 1 << 31):
            raise _Damaged(f"{label} has the zero point {zero[np.abs(zero) >= 1 << 31][0]}")
        return scale, np.broadcast_to(zero, scale.shape), axis

    def _array(self, raw: bytes, kind: str, shape: tuple[int, ...], label: str) -> Array | None:
        count = math.prod(shape)
        if kind == "INT4":
            if len(raw) != (count + 1) // 2:
                raise _Damaged(f"{label} of shape {shape} has {len(raw)} bytes")
            pairs = np.frombuffer(raw, np.uint8)
            nibbles = np.stack([pairs & 15, pairs >> 4], -1).reshape(-1)[:count].astype(np.int8)
            return ((nibbles ^ 8) - 8).reshape(shape)
        if kind not in _NUMPY:
            return None
        dtype = np.dtype(_NUMPY[kind])
        if len(raw) != count * dtype.itemsize:
            raise _Damaged(f"{label} of shape {shape} has {len(raw)} bytes")
        return np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype).reshape(shape)

    def _operator(self, operator: Any, index: int, tensors: int) -> OperatorRecord:
        code = int(operator.OpcodeIndex())
        if not 0 <= code < len(self._codes):
            raise _Damaged(f"operator {index} has the code {code} of {len(self._codes)}")
        name, version = self._codes[code]
        inputs, outputs, between = (
            self._indices(operator, kind, tensors) for kind in ("Inputs", "Outputs", "Intermediates")
        )
        options = read_options(operator, name) if name in OPTIONS else {}
        return OperatorRecord(index, name, version, inputs, outputs, between, options)

    def _signatures(self, graphs: int) -> Iterator[Signature]:
        length: Callable[[], int] = getattr(self._model, "SignatureDefsLength", int)
        for n in range(self._count(length())):
            signature = self._model.SignatureDefs(n)
            key, graph = _text(signature.SignatureKey()), int(signature.SubgraphIndex())
            if graph >= graphs:
                raise _Damaged(f"signature {key!r} names graph {graph} of {graphs}")
            sides = []
            for kind in ("Inputs", "Outputs"):
                count = self._count(getattr(signature, f"{kind}Length")())
                maps = [getattr(signature, kind)(place) for place in range(count)]
                sides.append(tuple((_text(m.Name()), int(m.TensorIndex())) for m in maps if m.Name()))
            yield Signature(key, graph, *sides)


def _text(raw: bytes | None) -> str:
    return raw.decode(errors="replace") if raw else ""


def _distinct(named: list[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """Unique names: a repeated name gets a number."""
    found: dict[str, int] = {}
    for name, tensor in named:
        count = 2
        other = name
        while other in found:
            other, count = f"{name}_{count}", count + 1
        found[other] = tensor
    return tuple(found.items())
