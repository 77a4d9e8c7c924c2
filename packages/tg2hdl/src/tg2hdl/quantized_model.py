"""Models in integers, of quantization and of files with quantizers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_backend import TensorFunction
from tg2hdl_backend.tinygrad_adapter.capture import substitute
from tg2hdl_backend.tinygrad_adapter.tensor_function import stored_tensor
from tg2hdl_backend.tinygrad_adapter.tensor_graph import stateful_graph
from tg2hdl_ir import InputError, UnsupportedError
from tg2hdl_ir.errors import model_place
from tg2hdl_ir.tensors import TensorGraph
from tg2hdl_ir.turns import compiles
from tg2hdl_quant.graph import ImportReport, QuantizationReport, QuantizedGraph, import_graph
from tg2hdl_top import CompileOptions

__all__ = ["QuantizedModel", "integer_model"]

Array = npt.NDArray[Any]


class QuantizedModel:
    """A model in integers; made by `tg2hdl.quantize`.

    Called with the integers of `quantize_input` as Tensors it gives integers; `tg2hdl.compile` compiles it.
    Called with a float array it quantizes on the host, runs in numpy, and gives the values of the outputs.

    Attributes
    ----------
    quantized : QuantizedGraph
        The integer graph with the scales at its borders.
    whole : QuantizedGraph
        The same with the state among its borders.
    graph : TensorGraph
        Integer operations only.
    inputs : tuple of TensorSpec
        Shapes and integer types of the inputs.
    report : QuantizationReport or ImportReport
    input_names, output_names : tuple of str
        As in the file, or the parameters of the function; `output_names` is None where outputs have no names.
    first_state : dict of str to ndarray
        First contents of the state, in integers, by name; each run of the model continues from the run before.

    Parameters
    ----------
    quantized : QuantizedGraph
        The integer graph, its state among its borders.
    output_names : sequence of str, optional
        Names of the outputs, which are then a dict.
    states : mapping of str to ndarray, optional
        First contents of the last inputs of the graph, which are state: its last outputs are their next contents.
    """

    def __init__(
        self,
        quantized: QuantizedGraph,
        output_names: Sequence[str] | None = None,
        states: Mapping[str, Array] | None = None,
    ) -> None:
        count = len(quantized.inputs) - len(states or {})
        self.first_state = {
            name: quantized.quantize_input(count + n, array)
            for n, (name, array) in enumerate((states or {}).items())
        }
        self.whole = quantized
        self._structure = quantized.graph.structure
        self._outputs = len(quantized.outputs) - len(self.first_state)
        self.quantized = replace(
            quantized,
            inputs=quantized.inputs[:count],
            outputs=quantized.outputs[: self._outputs],
            input_types=quantized.input_types[:count],
            output_types=quantized.output_types[: self._outputs],
        )
        self._function = TensorFunction(
            replace(quantized.graph, structure=None) if states else quantized.graph
        )
        self.graph: TensorGraph = quantized.graph
        self.report: QuantizationReport | ImportReport = quantized.report
        self.inputs = self._function.inputs[:count]
        self.input_names = self._function.input_names[:count]
        self.output_names = None if output_names is None else tuple(output_names)
        self.__name__ = self._function.__name__
        signature = self._function.__signature__
        self.__signature__ = signature.replace(parameters=list(signature.parameters.values())[:count])
        self._state = {name: stored_tensor(codes) for name, codes in self.first_state.items()}
        self._codes = dict(self.first_state)

    def __call__(self, *inputs: Any) -> Any:
        """Integers for Tensors of integers; float values for float arrays."""
        if not any(isinstance(x, np.ndarray) for x in inputs):
            return self._run(*inputs)
        return self.dequantize(self.reference(*self.quantize_input(*inputs)))

    def _run(self, *inputs: Any) -> Any:
        """Integers of the outputs for Tensors of integers; updates the Tensors of the state."""
        if not self._state:
            return self._function(*inputs)
        results = self._function(*inputs, *self._state.values())
        outputs, after = results[: self._outputs], [r.contiguous() for r in results[self._outputs :]]
        for tensor, new in zip(self._state.values(), after, strict=True):
            tensor.assign(new)
        if self._structure is not None:
            return substitute(self._structure, outputs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def named_weights(self) -> Mapping[str, Any]:
        """Integer constants and the state by name."""
        return {**self._function.named_weights(), **self._state}

    def reset(self) -> None:
        """Start over: `reference`, and calls with arrays, begin with the first contents of the state."""
        self._codes = dict(self.first_state)

    def quantize_input(self, *inputs: npt.ArrayLike) -> tuple[Array, ...]:
        """Integers of the inputs: rounded half to even and clipped; a missing batch axis of size 1 is added.

        Raises
        ------
        InputError
            For a missing input, another shape, or elements that are not finite.
        """
        specs = self.inputs
        if len(inputs) != len(specs):
            raise InputError(
                f"{len(inputs)} inputs for a model of {len(specs)}",
                hint="pass " + ", ".join(f"{s.name} {s.shape}" for s in specs),
            )
        found = []
        for number, (spec, given) in enumerate(zip(specs, inputs, strict=True)):
            array = np.asarray(given.numpy() if hasattr(given, "numpy") else given)
            if spec.shape[:1] == (1,) and array.shape == spec.shape[1:]:
                array = array[None]
            if array.shape != spec.shape:
                raise InputError(
                    f"input {spec.name!r} has shape {array.shape}, the model was quantized for {spec.shape}",
                    where=f"input {spec.name!r}",
                    hint="reshape it, or quantize the model with samples of this shape",
                )
            found.append(self.quantized.quantize_input(number, array))
        return tuple(found)

    def reference(self, *integers: Array) -> Any:
        """Integer outputs in numpy, independent of tinygrad; the bits that the hardware gives.

        A model with state continues from the call before; see `reset`.
        """
        outputs = self._step([np.asarray(i) for i in integers], self._codes)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _step(self, integers: Sequence[Array], state: dict[str, Array]) -> list[Array]:
        """Integer outputs of a run, whose state is updated."""
        results = [o[0] for o in self.quantized.reference(*(i[None] for i in (*integers, *state.values())))]
        state |= dict(zip(state, results[self._outputs :], strict=True))
        return results[: self._outputs]

    def evaluate(self, *samples: npt.ArrayLike) -> Any:
        """Values of the outputs for many samples, in numpy: arrays as `quantize` was given them.

        For a model with state they are a sequence, which begins with its first contents.
        """
        integers = []
        for number, (spec, given) in enumerate(zip(self.inputs, samples, strict=True)):
            array = np.asarray(given)
            array = array.reshape(len(array), *spec.shape)
            integers.append(self.quantized.quantize_input(number, array))
        if self.first_state:
            state = dict(self.first_state)
            steps = [self._step(each, state) for each in zip(*integers, strict=True)]
            outputs = [np.stack(column) for column in zip(*steps, strict=True)]
        else:
            outputs = self.quantized.reference(*integers)
        return self.dequantize(outputs[0] if len(outputs) == 1 else tuple(outputs))

    def dequantize(self, outputs: Any) -> Any:
        """Values of integer outputs, in their structure; values, class numbers and other integers stay as they are."""
        if isinstance(outputs, Mapping):
            values = self.dequantize(tuple(outputs.values()))
            return dict(zip(outputs, values, strict=True))
        several = isinstance(outputs, tuple | list)
        arrays = outputs if several else (outputs,)
        values = tuple(self.quantized.dequantize(n, array) for n, array in enumerate(arrays))
        return values if several else values[0]


@compiles
def integer_model(
    model: Callable[..., Any], *example_inputs: Any, allow_float: bool = True, validate: str = "auto"
) -> QuantizedModel:
    """Integer arithmetic for a model that brings its own scales, such as an ONNX file with QuantizeLinear.

    Codes are those of ONNX Runtime; ``report.is_exact`` says whether that is proven for all of them, and ``doubt`` of
    each layer in ``report.layers`` why not.

    Parameters
    ----------
    model : callable
        An `OnnxModel`, or a function of Tensors that declares its codes.
    example_inputs : arrays
        One per parameter; those of an `OnnxModel` are known.
    allow_float : bool
        Whether operations without an integer form, such as softmax, are computed in float; the report names them.
    validate : {"auto", "full", "each", "off"}
        Whether the integers are compared, layer by layer, with the float operations that the model is defined by; see
        `CompileOptions`.

    Raises
    ------
    InputError
        For a model without quantizers whose scales are known when it is compiled.
    UnsupportedError
        For operations without an integer form, when float is not allowed, and for state whose input and output have
        different codes.
    ValidationError
        When a layer has other codes than these float operations: a bug of tg2hdl.
    """
    validate = CompileOptions(validate=validate).validation
    if operator := getattr(model, "scales_from_data", ""):
        raise InputError(
            f"{operator} in model {model.__name__} computes its scales from the data of each run",
            hint="compile the model itself, which divides in float, or quantize it with known scales",
        )
    if not example_inputs and hasattr(model, "inputs"):
        example_inputs = tuple(spec.zeros() for spec in model.inputs)
    graph, first = stateful_graph(model, *example_inputs)
    kernels = getattr(model, "kernels", None)
    found = import_graph(graph, allow_float=allow_float, kernels=kernels, validate=validate)
    floats: tuple[str, ...] = getattr(model, "float_quantizers", ())
    if isinstance(found.report, ImportReport):
        in_float = (*floats, *found.report.in_float)
        found = replace(found, report=replace(found.report, in_float=in_float))
    _check_codes(found, list(first))
    return QuantizedModel(found, getattr(model, "output_names", None), first)


def _check_codes(found: QuantizedGraph, states: Sequence[str]) -> None:
    """Refuse a file whose state has other codes before and after a run."""
    # They are the last inputs and outputs.
    ends = (ports[len(ports) - len(states) :] for ports in (found.inputs, found.outputs))
    for name, before, after in zip(states, *ends, strict=True):
        types = [found.graph.nodes[v.node].dtype for v in (before, after)]
        same = all(
            np.array_equal(getattr(before, part), getattr(after, part))
            for part in ("scale", "zero", "offset")
        )
        if types[0] != types[1] or not same:
            raise UnsupportedError(
                f"state {name!r} has other codes after a run than before it: {types[1]} of scale {after.scale:.4g} and "
                f"zero point {after.zero}, {types[0]} of {before.scale:.4g} and {before.zero}"
                if before.scale.size == after.scale.size == 1
                else f"state {name!r} has other codes after a run than before it",
                where=model_place(found.graph.name),
                hint="quantize both with one scale, or compute the file in float: keep_float=True",
            )
