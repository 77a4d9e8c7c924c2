"""ONNX files as models."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from tinygrad import Tensor

from tg2hdl_backend.onnx.checks import infer_types
from tg2hdl_backend.onnx.dimensions import check_sizes, example_sizes, fixed_values, resolve_inputs
from tg2hdl_backend.onnx.file import read_file
from tg2hdl_backend.onnx.graph import OnnxGraph
from tg2hdl_backend.onnx.limits import DEFAULT_LIMIT, Limit, check_limit
from tg2hdl_backend.onnx.runtime_kernels import runtime_kernels
from tg2hdl_backend.onnx.state import FileState, state_pairs
from tg2hdl_backend.onnx.tensors import array_of, tensor_of
from tg2hdl_backend.onnx.text import TextTable, is_text
from tg2hdl_backend.onnx.value import OnnxValue
from tg2hdl_backend.tinygrad_adapter.model_inputs import TensorSpec
from tg2hdl_ir import InputError
from tg2hdl_ir.tensors import LayerKernel

__all__ = ["OnnxModel"]

_QUANTIZERS = frozenset(
    ("QuantizeLinear", "DequantizeLinear", "QGemm", "Quant", "IntQuant", "BipolarQuant", "Trunc")
)


class OnnxModel:
    """An ONNX file that can be compiled like any other model.

    Parameters
    ----------
    path : path
        The file; its external data is in the same folder.
    batch : int, optional
        Size of first dimensions without a size.
    dims : mapping of str to int, optional
        Sizes of symbolic dimensions by name or by ``INPUT.AXIS``, e.g. ``x.1``, which goes first.
    fixed : mapping of str to array, optional
        Values of graph inputs that become constants, such as axes or shapes.
    examples : arrays, or mapping of str to array
        Example inputs in the order of the graph or by name: their shapes give sizes to dimensions that have none yet.
    limit : int
        Most elements of a result; a trip of a loop counts as 4096.
    state : mapping of str to str, optional
        Outputs that are kept for the next run, with the inputs that get them: ``{"stateN": "state"}``.  They are
        neither inputs nor outputs of the model; the first contents are those of the input's initializer, or zeros.

    Attributes
    ----------
    inputs : tuple of TensorSpec
        Of the graph, with all sizes resolved, without the fixed ones and the state.
    input_names, output_names : tuple of str
        As in the file.
    operators : frozenset of str
        Types of the nodes of the graph.
    in_float : tuple of str
        Nodes of a quantized file that are computed in float although the user asked for integers.
    text_outputs : frozenset of str
        Outputs whose numbers stand for strings, see `decoded`.

    Raises
    ------
    InputError
        For a file that cannot be read, or a dimension without a size.
    DependsOnData
        When a shape, axis or the like depends on an input that is not fixed.
    UnsupportedError
        For an operator, element type or attribute without an implementation.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        batch: int | None = None,
        dims: Mapping[str, int] | None = None,
        fixed: Mapping[str, Any] | None = None,
        examples: Sequence[Any] | Mapping[str, Any] = (),
        limit: int = DEFAULT_LIMIT,
        state: Mapping[str, str] | None = None,
    ) -> None:
        self._limit = Limit(check_limit(limit))
        if not isinstance(path, (str, PathLike)):
            raise InputError(f"{path!r:.60} is not a path of an ONNX file", hint="give e.g. 'model.onnx'")
        check_sizes(batch, dims, fixed)
        file = Path(path)
        proto = read_file(file, limit)
        self.__name__ = file.stem
        self._fixed = fixed_values(proto.graph, dict(fixed or {}), file)
        pairs = state_pairs(proto.graph, state, self._fixed, file)
        given = {*self._fixed, *pairs.values()}
        sizes = {**example_sizes(proto.graph, examples, given, file), **(dims or {})}
        first = _without_initializers(proto.graph, set(pairs.values()))
        specs = resolve_inputs(proto, batch, sizes, self._fixed, file)
        for spec in specs:
            self._limit.size(math.prod(spec.shape), f"input {spec.name!r} of {file.name}", "the input")
        self._state = FileState(pairs, [s for s in specs if s.name in pairs.values()], first, file.name)
        self.inputs: tuple[TensorSpec, ...] = tuple(s for s in specs if s.name not in pairs.values())
        self.input_names = tuple(s.name for s in self.inputs)
        self.output_names = tuple(o.name for o in proto.graph.output if o.name not in pairs)
        if not self.output_names:
            raise InputError(
                f"{file.name} has no output",
                where=str(file),
                hint="export the model with its results as outputs",
            )
        if twice := [name for name, count in Counter(self.output_names).items() if count > 1]:
            raise InputError(
                f"{file.name} has two outputs of the name {twice[0]!r}",
                where=str(file),
                hint="give each output a name of its own, with an Identity node",
            )
        self._graph = proto.graph
        self.operators = frozenset(n.op_type for n in proto.graph.node)
        self._versions = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in proto.opset_import}
        known = onnx.defs.onnx_opset_version()
        if self._versions.get("", 0) > known:
            raise InputError(
                f"{file.name} is of opset {self._versions['']}; the installed onnx knows {known}",
                where=str(file),
                hint=f"install a newer onnx, or export the model with opset {known} or less",
            )
        self._expected = infer_types(proto, file.name)
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(f"x{n}", inspect.Parameter.POSITIONAL_ONLY) for n in range(len(self.inputs))]
        )
        self._text = TextTable()
        self._in_float: dict[str, str] = {}
        self.in_float: tuple[str, ...] = ()
        self._arrays, self._strings = {}, []
        names = Counter(tensor.name for tensor in proto.graph.initializer)
        if twice := [name for name, count in names.items() if count > 1]:
            raise InputError(
                f"{file.name} has two initializers of the name {twice[0]!r}",
                where=str(file),
                hint="check the file with onnx.checker.check_model",
            )
        for tensor in proto.graph.initializer:
            if is_text(tensor):
                self._strings.append(tensor)
            elif tensor.name not in self._fixed:
                self._arrays[tensor.name] = array_of(tensor, f"initializer {tensor.name!r} of {file.name}")
        self.text_outputs: frozenset[str] = frozenset()
        self._weights = _Weights(self._arrays)
        empty = (
            Tensor.empty(*s.shape, dtype=tensor_of(np.zeros(1, s.dtype.numpy())).dtype) for s in self.inputs
        )
        self._state.check(self._run(empty)[1])

    def __call__(self, *inputs: Any) -> Any:
        """Outputs of the graph: a Tensor, or a dict of Tensors by name when there are several."""
        outputs, kept = self._run(inputs)
        self._state.store(kept)
        return next(iter(outputs.values())) if len(outputs) == 1 else outputs

    def _run(self, inputs: Iterable[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Outputs of the graph by name, and those that are kept as state."""
        graph = OnnxGraph(self._versions, self._expected, None, self._text, self._in_float, self._limit)
        for proto in self._strings:
            graph.add(graph.initializer(proto, proto.name))
        for name, array in self._fixed.items():
            graph.add(OnnxValue.of_array(name, array))
        for name, array in self._arrays.items():
            graph.add(self._weight(name, array))
        for spec, tensor in zip(self.inputs, inputs, strict=True):
            graph.add(OnnxValue.of_tensor(spec.name, tensor, frozenset({spec.name})))
        for name, tensor in self._state.tensors.items():
            graph.add(OnnxValue.of_tensor(name, tensor, frozenset({name})))
        graph.run(self._graph.node)
        found = {name: graph.value(name) for name in self.output_names}
        states = {name: graph.value(name) for name in self._state.pairs}
        kept = {name: graph.tensor_result(value) for name, value in states.items() if value is not None}
        outputs = {name: graph.tensor_result(value) for name, value in found.items() if value is not None}
        self.text_outputs = frozenset(n for n, value in found.items() if value is not None and value.is_text)
        return outputs, kept

    def _weight(self, name: str, array: npt.NDArray[Any]) -> OnnxValue:
        return OnnxValue(name, lambda: self._weights[name], lambda: array, is_weight=True)

    @property
    def is_quantized(self) -> bool:
        """Whether the file has quantizers or operators on codes."""
        return bool(
            self.scales_from_data
            or self.operators & _QUANTIZERS
            or any(o.startswith("QLinear") for o in self.operators)
        )

    @property
    def scales_from_data(self) -> str:
        """Operator that computes scales from the data of each run; empty without one."""
        return "DynamicQuantizeLinear" if "DynamicQuantizeLinear" in self.operators else ""

    @property
    def kernels(self) -> dict[str, LayerKernel]:
        """How ONNX Runtime computes each quantizer, by the name of its node."""
        return runtime_kernels(self._graph, self._arrays)

    @property
    def float_quantizers(self) -> tuple[str, ...]:
        """Quantizers without an integer form: node, operator and reason, such as a scale that is an input."""
        return tuple(f"{name} ({reason})" for name, reason in self._in_float.items())

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        """For each output that is text the strings that its numbers stand for."""
        return dict.fromkeys(sorted(self.text_outputs), self._text.strings)

    def decoded(self, name: str, result: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """An output as the file has it: strings where the hardware gives their numbers.

        Parameters
        ----------
        name : str
            Of the output.
        result : ndarray
            The result of the hardware.
        """
        return self._text.decoded(result) if name in self.text_outputs else result

    def example_inputs(self) -> tuple[npt.NDArray[Any], ...]:
        """Zeros of the shapes and dtypes of the inputs."""
        return tuple(s.zeros() for s in self.inputs)

    def named_weights(self) -> dict[str, Tensor]:
        """Initializers of the graph that are used as tensors, and the state by the names of its inputs."""
        return {**self._weights, **self._state.tensors}


def _without_initializers(graph: onnx.GraphProto, names: set[str]) -> dict[str, npt.NDArray[Any]]:
    """Take the initializers of inputs out of the graph; returns them."""
    found = {t.name: array_of(t, f"initializer {t.name!r}") for t in graph.initializer if t.name in names}
    left = [t for t in graph.initializer if t.name not in names]
    if found:
        del graph.initializer[:]
        graph.initializer.extend(left)
    return found


class _Weights(dict[str, Tensor]):
    """Tensors of initializers, made when they are first used: shapes and axes need none."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super().__init__()
        self._arrays = arrays

    def __missing__(self, name: str) -> Tensor:
        self[name] = tensor = tensor_of(self._arrays[name], f"initializer {name!r}").realize()
        return tensor
