"""Models in integers: what quantization makes, and what files with quantizers become."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_backend import TensorFunction, tensor_graph
from tg2hdl_ir.errors import InputError
from tg2hdl_ir.tensors import TensorGraph
from tg2hdl_ir.turns import compiles
from tg2hdl_quant.graph import ImportReport, QuantizationReport, QuantizedGraph, import_graph
from tg2hdl_top import CompileOptions

__all__ = ["QuantizedModel", "integer_model"]

Array = npt.NDArray[Any]


class QuantizedModel:
    """A model in integers; made by `tg2hdl.quantize`.

    Called with the integers of `quantize_input` as Tensors it gives integers, and is what `tg2hdl.compile` compiles.
    Called with a float array it quantizes on the host, runs in numpy, and gives the values of the outputs.

    Attributes
    ----------
    quantized : QuantizedGraph
        The integer graph with the scales at its borders.
    graph : TensorGraph
        Integer operations only.
    inputs : tuple of TensorSpec
        Shapes and integer types of the inputs.
    report : QuantizationReport or ImportReport
    input_names, output_names : tuple of str
        As in the file, or the parameters of the function; `output_names` is None where outputs have no names.
    """

    def __init__(self, quantized: QuantizedGraph, output_names: Sequence[str] | None = None) -> None:
        self.quantized = quantized
        self._function = TensorFunction(quantized.graph)
        self.graph: TensorGraph = quantized.graph
        self.report: QuantizationReport | ImportReport = quantized.report
        self.inputs = self._function.inputs
        self.input_names = self._function.input_names
        self.output_names = None if output_names is None else tuple(output_names)
        self.__name__ = self._function.__name__
        self.__signature__ = self._function.__signature__

    def __call__(self, *inputs: Any) -> Any:
        """Integers for Tensors of integers; float values for float arrays."""
        if not any(isinstance(x, np.ndarray) for x in inputs):
            return self._function(*inputs)
        return self.dequantize(self.reference(*self.quantize_input(*inputs)))

    def named_weights(self) -> Mapping[str, Any]:
        """Integer constants by name."""
        return self._function.named_weights()

    def quantize_input(self, *inputs: npt.ArrayLike) -> tuple[Array, ...]:
        """Integers of the inputs: rounded half to even and clipped; a missing batch axis of size 1 is added.

        Raises
        ------
        InputError
            For a missing input, another shape, or elements that are not finite.
        """
        specs = self._function.inputs
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
                )
            found.append(self.quantized.quantize_input(number, array))
        return tuple(found)

    def reference(self, *integers: Array) -> Any:
        """Integer outputs in numpy, independent of tinygrad; the bits that the hardware gives."""
        outputs = [o[0] for o in self.quantized.reference(*(np.asarray(i)[None] for i in integers))]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def evaluate(self, *samples: npt.ArrayLike) -> Any:
        """Values of the outputs for many samples, in numpy: arrays as `quantize` was given them."""
        integers = []
        for number, (spec, given) in enumerate(zip(self._function.inputs, samples, strict=True)):
            array = np.asarray(given)
            array = array.reshape(len(array), *spec.shape)
            integers.append(self.quantized.quantize_input(number, array))
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
        For operations without an integer form, when float is not allowed.
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
    graph = tensor_graph(model, *example_inputs)
    kernels = getattr(model, "kernels", None)
    found = import_graph(graph, allow_float=allow_float, kernels=kernels, validate=validate)
    floats: tuple[str, ...] = getattr(model, "float_quantizers", ())
    if isinstance(found.report, ImportReport):
        in_float = (*floats, *found.report.in_float)
        found = replace(found, report=replace(found.report, in_float=in_float))
    return QuantizedModel(found, getattr(model, "output_names", None))
