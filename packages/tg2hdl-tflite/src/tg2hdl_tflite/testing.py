"""Small TFLite files without TensorFlow, and TensorFlow Lite Micro to compare with.

>>> import numpy as np
>>> from tg2hdl_tflite.testing import Network
>>> net = Network()
>>> x = net.tensor((1, 8), "INT8", scale=0.5, zero_point=3)
>>> w = net.constant(np.ones((4, 8), np.int8), scale=0.25)
>>> b = net.constant(np.zeros(4, np.int32))
>>> y = net.tensor((1, 4), "INT8", scale=0.25)
>>> net.operator("FULLY_CONNECTED", [x, w, b], [y], "FullyConnectedOptions")
>>> data = net.finish([x], [y])

Names of options are the fields of the schema, such as ``StrideW`` or ``FusedActivationFunction``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
import tflite

__all__ = ["Network", "Subgraph", "run_golden", "run_micro"]

_ARENA = 1 << 23
"""Bytes that TFLM may use; its own guess is too small for some operators."""
_PLACEHOLDER = 127
"""Value of the old field of 8 bits where the code of an operator does not fit."""


def _table(builder: Any, name: str, **fields: Any) -> int:
    """Write a table; fields of strings, tables and vectors are given as offsets."""
    getattr(tflite, f"{name}Start")(builder)
    for field, value in fields.items():
        if value is not None:
            getattr(tflite, f"{name}Add{field}")(builder, value)
    return int(getattr(tflite, f"{name}End")(builder))


def _offsets(builder: Any, values: Sequence[int]) -> int:
    builder.StartVector(4, len(values), 4)
    for value in reversed(values):
        builder.PrependUOffsetTRelative(value)
    return int(builder.EndVector())


class Subgraph:
    """Tensors and operators of one graph."""

    def __init__(self, network: Network, name: str) -> None:
        self.network, self.name = network, name
        self.tensors: list[int] = []
        self.operators: list[int] = []
        self.inputs: Sequence[int] = ()
        self.outputs: Sequence[int] = ()

    def tensor(
        self,
        shape: Sequence[int],
        kind: str,
        *,
        scale: npt.ArrayLike | None = None,
        zero_point: npt.ArrayLike = 0,
        axis: int = 0,
        data: bytes = b"",
        name: str | None = None,
        variable: bool = False,
    ) -> int:
        """Add a tensor and return its index; `scale` is a number, or one for each slice of `axis`.

        Parameters
        ----------
        shape : sequence of int
        kind : str
            Element type in the schema, such as INT8 or FLOAT32.
        scale : array_like or None
            Of a step: a number, or one for each slice of `axis`; none for a tensor that is not quantized.
        zero_point : array_like
            Code of 0, of each slice or of all.
        axis : int
            Along which the scales differ.
        data : bytes
            Contents of a constant, little-endian; empty for a value that is computed.
        name : str or None
            ``t`` and its index by default.
        variable : bool
            Whether it keeps its contents from run to run.
        """
        b = self.network.builder
        quantization = None
        if scale is not None:
            scales = np.atleast_1d(np.asarray(scale, np.float32))
            zeros = np.array(np.broadcast_to(np.asarray(zero_point, np.int64), scales.shape))
            vectors = b.CreateNumpyVector(scales), b.CreateNumpyVector(zeros)
            quantization = _table(
                b, "QuantizationParameters", Scale=vectors[0], ZeroPoint=vectors[1], QuantizedDimension=axis
            )
        label = b.CreateString(name or f"t{len(self.tensors)}")
        sizes = b.CreateNumpyVector(np.array(shape, np.int32))
        written = _table(
            b,
            "Tensor",
            Shape=sizes,
            Type=getattr(tflite.TensorType, kind),
            Buffer=self.network.buffer(data) if data else 0,
            Name=label,
            Quantization=quantization,
            IsVariable=variable,
        )
        self.tensors.append(written)
        return len(self.tensors) - 1

    def constant(self, array: npt.ArrayLike, **options: Any) -> int:
        """Add a tensor with data, of the array's own type."""
        found = np.asarray(array)
        kind = "BOOL" if found.dtype == bool else found.dtype.name.upper()
        return self.tensor(found.shape, kind, data=np.ascontiguousarray(found).tobytes(), **options)

    def operator(
        self,
        name: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: str | None = None,
        version: int = 1,
        intermediates: Sequence[int] = (),
        **fields: Any,
    ) -> None:
        """Add an operator; -1 among `inputs` stands for an optional operand that is missing.

        Parameters
        ----------
        name : str
            In the schema, such as CONV_2D.
        inputs, outputs : sequence of int
            Indices of tensors.
        options : str or None
            Table of the schema whose fields are `fields`.
        version : int
            Of the operator.
        intermediates : sequence of int
            Indices of tensors between the parts of the operator.
        **fields
            By their names in the schema.
        """
        b = self.network.builder
        between = b.CreateNumpyVector(np.array(intermediates, np.int32)) if intermediates else None
        option = _table(b, options, **fields) if options else None
        ins, outs = (b.CreateNumpyVector(np.array(v, np.int32)) for v in (inputs, outputs))
        self.operators.append(
            _table(
                b,
                "Operator",
                OpcodeIndex=self.network.code(name, version),
                Inputs=ins,
                Outputs=outs,
                Intermediates=between,
                BuiltinOptionsType=getattr(tflite.BuiltinOptions, options) if options else None,
                BuiltinOptions=option,
            )
        )

    def write(self) -> int:
        """The offset of the whole graph."""
        b = self.network.builder
        ins, outs = (b.CreateNumpyVector(np.array(v, np.int32)) for v in (self.inputs, self.outputs))
        tensors, operators = _offsets(b, self.tensors), _offsets(b, self.operators)
        label = b.CreateString(self.name)
        return _table(
            b, "SubGraph", Tensors=tensors, Inputs=ins, Outputs=outs, Operators=operators, Name=label
        )


class Network(Subgraph):
    """The main graph of a model, and the tables that all its graphs share."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1 << 16)
        self._codes: dict[tuple[int, int], int] = {}
        self._buffers = [_table(self.builder, "Buffer")]  # Buffer 0 is the empty one.
        super().__init__(self, "main")
        self.graphs: list[Subgraph] = [self]
        self._signatures: list[int] = []

    def subgraph(self, name: str) -> Subgraph:
        """Add a further graph; its index is its place in `graphs`."""
        self.graphs.append(Subgraph(self, name))
        return self.graphs[-1]

    def signature(self, key: str, graph: int, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> None:
        """Add a signature: names of tensors of a graph.

        Parameters
        ----------
        key : str
            Name of the signature.
        graph : int
            Index of its graph.
        inputs, outputs : mapping of str to int
            Indices of tensors by name.
        """
        b, sides = self.builder, []
        for side in (inputs, outputs):
            names = [b.CreateString(name) for name in side]
            maps = [
                _table(b, "TensorMap", Name=name, TensorIndex=n)
                for name, n in zip(names, side.values(), strict=True)
            ]
            sides.append(_offsets(b, maps))
        label = b.CreateString(key)
        self._signatures.append(
            _table(
                b, "SignatureDef", Inputs=sides[0], Outputs=sides[1], SignatureKey=label, SubgraphIndex=graph
            )
        )

    def buffer(self, data: bytes) -> int:
        """Add contents of a tensor, aligned to 16 bytes as TFLM wants them."""
        b = self.builder
        b.StartVector(1, len(data), 16)
        b.head -= len(data)
        b.Bytes[b.head : b.head + len(data)] = data
        self._buffers.append(_table(b, "Buffer", Data=b.EndVector()))
        return len(self._buffers) - 1

    def code(self, name: str, version: int) -> int:
        """Index of an operator's code.

        Parameters
        ----------
        name : str
            Of the operator in the schema.
        version : int
        """
        key = getattr(tflite.BuiltinOperator, name), version
        return self._codes.setdefault(key, len(self._codes))

    def finish(self, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        """The file's bytes.

        Parameters
        ----------
        inputs, outputs : sequence of int
            Indices of tensors of the main graph.
        """
        b, self.inputs, self.outputs = self.builder, inputs, outputs
        graphs = _offsets(b, [graph.write() for graph in self.graphs])
        codes = _offsets(
            b,
            [
                _table(
                    b,
                    "OperatorCode",
                    DeprecatedBuiltinCode=min(code, _PLACEHOLDER),
                    BuiltinCode=code,
                    Version=version,
                )
                for code, version in self._codes
            ],
        )
        buffers, label = _offsets(b, self._buffers), b.CreateString("tg2hdl test")
        signatures = _offsets(b, self._signatures) if self._signatures else None
        root = _table(
            b,
            "Model",
            Version=3,
            OperatorCodes=codes,
            Subgraphs=graphs,
            Description=label,
            Buffers=buffers,
            SignatureDefs=signatures,
        )
        b.Finish(root, b"TFL3")
        return bytes(b.Output())


def run_micro(data: bytes, *inputs: npt.NDArray[Any], outputs: int = 1) -> list[list[npt.NDArray[Any]]]:
    """Outputs of TensorFlow Lite Micro for each call.

    Parameters
    ----------
    inputs : ndarray
        One per input; the first axis counts calls, between which variables keep their contents.
    """
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(data, arena_size=_ARENA)
    results = []
    for call in range(len(inputs[0])):
        for index, value in enumerate(inputs):
            interpreter.set_input(value[call], index)
        interpreter.invoke()
        results.append([np.array(interpreter.get_output(n)) for n in range(outputs)])
    return results


def run_golden(
    data: bytes,
    *inputs: npt.NDArray[Any],
    rounding: str = "tflite-micro",
    signature: str | None = None,
) -> list[list[npt.NDArray[Any]]]:
    """Outputs of the golden model of the design for each call, as `run_micro` gives TFLM's.

    Parameters
    ----------
    data : bytes
        The file.
    *inputs : ndarray
        One per input; the first axis counts calls, between which variables keep their contents.
    rounding : str
        See `TfliteModel`.
    signature : str or None
        Name of the signature to run; the main graph without one.
    """
    from tg2hdl_backend import capture
    from tg2hdl_ir import evaluate_program
    from tg2hdl_tflite.model import TfliteModel

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.tflite"
        path.write_bytes(data)
        model = TfliteModel(path, rounding=rounding, signature=signature)
    captured = capture(model, *(value[0] for value in inputs))
    program = captured.program
    state: dict[str, npt.NDArray[Any]] = {}
    results = []
    for call in range(len(inputs[0])):
        named = captured.bind(*(value[call] for value in inputs))
        found = evaluate_program(program, named, captured.var_vals or None, state=state)
        arrays = captured.restore([found[program.buffers[n].name] for n in program.outputs])
        results.append(list(arrays.values()) if isinstance(arrays, dict) else [arrays])
    return results
