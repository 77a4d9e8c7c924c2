"""Any float model to integers: ``tg2hdl.quantize``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl.progress import step
from tg2hdl_backend import TensorFunction, TensorSpec, tensor_graph
from tg2hdl_backend.arguments import in_input_order
from tg2hdl_backend.tinygrad_adapter.model_inputs import parameter_names
from tg2hdl_ir.errors import InputError
from tg2hdl_ir.tensors import TensorGraph
from tg2hdl_ir.turns import compiles
from tg2hdl_quant.graph import QuantizationReport, QuantizedGraph, QuantizeOptions, quantize_graph
from tg2hdl_quant.imported import ImportReport, import_graph

__all__ = ["QuantizedModel", "first_samples", "integer_model", "quantize", "samples_as_declared"]

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
def quantize(
    model: Callable[..., Any] | str | PathLike[str],
    samples: Any,
    *,
    bits: int | Mapping[str, int] | None = None,
    labels: npt.ArrayLike | None = None,
    batched: bool = True,
    options: QuantizeOptions | None = None,
    **further: Any,
) -> QuantizedModel:
    """Quantize a float model to integers, calibrated on samples.

    Parameters
    ----------
    model : callable or path
        As for `tg2hdl.compile`: a function of Tensors, an object with ``__call__``, an `OnnxModel` or an ONNX file.
    samples : array, tuple of arrays, or mapping of str to array
        One array per input, in their order or by name; its first axis counts samples.  The model gets one sample at a
        time, with a batch axis of size 1 in front unless a file declares an input of the sample's own shape.
    batched : bool
        Whether to add that axis; without, the model gets exactly ``samples[i]``.
    bits : int or mapping of str to int, optional
        Width of activations and weights (bits, 2 to 16); 8 unless given.  A mapping gives widths of the weights of
        single layers by the names of the report, as the option `layers`.
    labels : array of int, optional
        Correct class of each sample, for the accuracies of the report.
    options : QuantizeOptions, optional
        Everything else; single ones of its fields may be given by name.

    Raises
    ------
    InputError
        For samples of another shape, empty, NaN or infinite, labels of another length, or an unknown option.
    UnsupportedError
        For an operation that has no integer form; it is named.

    Examples
    --------
    >>> import numpy as np
    >>> import tg2hdl
    >>> from tinygrad import Tensor
    >>> w = Tensor(np.eye(4, dtype=np.float32))
    >>> q = tg2hdl.quantize(lambda x: (x @ w).relu(), np.linspace(-1, 1, 40, dtype=np.float32).reshape(10, 4))
    >>> acc = tg2hdl.compile(q, np.zeros(4, np.float32))
    """
    known = {field.name for field in fields(QuantizeOptions)}
    unknown = [name for name in further if name not in known]
    if unknown:
        raise InputError(
            f"tg2hdl.quantize has no option {unknown[0]!r}", hint="choose one of: " + ", ".join(sorted(known))
        )
    if bits is not None:
        further["layers" if isinstance(bits, Mapping) else "bits"] = bits
    chosen = replace(options or QuantizeOptions(), **further)
    given: dict[str, Array] | list[Array]
    if isinstance(samples, Mapping):
        given = {name: _array(s) for name, s in samples.items()}
    else:
        given = [_array(s) for s in (samples if isinstance(samples, tuple) else (samples,))]
    if isinstance(model, str | PathLike):
        from tg2hdl_backend import OnnxModel

        model = OnnxModel(model, examples=first_samples(given, batched))
    arrays = (
        list(in_input_order(given, parameter_names(model, given), "the dict of samples"))
        if isinstance(given, dict)
        else given
    )
    if hasattr(model, "inputs"):
        arrays = samples_as_declared(model.inputs, arrays, batched)
    elif batched:
        arrays = [a[:, None] for a in arrays]
    with step(f"quantizing with {len(arrays[0])} samples"):
        graph = tensor_graph(model, *(a[0] for a in arrays))
        made = quantize_graph(graph, arrays, chosen, labels)
        return QuantizedModel(made, getattr(model, "output_names", None))


_FLOAT_SUMS = frozenset(
    ("AveragePool", "ConvTranspose", "Einsum", "Mean", "ReduceMean", "ReduceSum", "Sub", "Sum")
)
"""Operators between quantizers that ONNX Runtime has no integer kernel for, or one that sums floats."""


@compiles
def integer_model(
    model: Callable[..., Any], *example_inputs: Any, allow_float: bool = True
) -> QuantizedModel:
    """Integer arithmetic for a model that brings its own scales, such as an ONNX file with QuantizeLinear.

    Codes are those of ONNX Runtime; ``report.is_exact`` says whether that is proven for all of them.

    Parameters
    ----------
    model : callable
        An `OnnxModel`, or a function of Tensors that declares its codes.
    example_inputs : arrays
        One per parameter; those of an `OnnxModel` are known.
    allow_float : bool
        Whether operations without an integer form, such as softmax, are computed in float; the report names them.

    Raises
    ------
    InputError
        For a model without quantizers whose scales are known when it is compiled.
    UnsupportedError
        For operations without an integer form, when float is not allowed.
    """
    if "DynamicQuantizeLinear" in getattr(model, "operators", ()):
        raise InputError(
            f"DynamicQuantizeLinear in model {model.__name__} computes its scales from the data of each run",
            hint="compile the model itself, which divides in float, or quantize it with known scales",
        )
    if not example_inputs and hasattr(model, "example_inputs"):
        example_inputs = model.example_inputs()
    found = import_graph(tensor_graph(model, *example_inputs), allow_float=allow_float)
    operators: frozenset[str] = getattr(model, "operators", frozenset())
    sums = tuple(sorted(_FLOAT_SUMS & operators)) if "DequantizeLinear" in operators else ()
    floats: tuple[str, ...] = getattr(model, "float_quantizers", ())
    if isinstance(found.report, ImportReport):
        in_float = (*floats, *found.report.in_float)
        found = replace(found, report=replace(found.report, float_sums=sums, in_float=in_float))
    return QuantizedModel(found, getattr(model, "output_names", None))


def first_samples(samples: Sequence[Any] | Mapping[str, Any], batched: bool) -> list[Any] | dict[str, Any]:
    """Example inputs for the sizes of a file: the first sample, with a batch axis where there may be one."""
    if isinstance(samples, Mapping):
        return dict(zip(samples, first_samples(list(samples.values()), batched), strict=True))
    shapes = [(1,) * batched + np.shape(a)[1:] for a in samples]
    return [np.broadcast_to(np.float32(0), shape) for shape in shapes]


def samples_as_declared(specs: Sequence[TensorSpec], arrays: Sequence[Array], batched: bool) -> list[Array]:
    """Samples in the shapes and types that a file declares; whole numbers become floats where it takes floats.

    Parameters
    ----------
    batched : bool
        Whether samples may lack a first axis of size 1.

    Raises
    ------
    InputError
        For another number of arrays, or another shape.
    """
    if len(specs) != len(arrays):
        raise InputError(
            f"samples for {len(arrays)} inputs, the model has {len(specs)}",
            hint="give an array for each of: " + ", ".join(s.name for s in specs),
        )
    found = []
    for spec, given in zip(specs, arrays, strict=True):
        array = np.asarray(given)
        lacks_axis = batched and (1, *array.shape[1:]) == spec.shape
        if array.shape[1:] != spec.shape and not lacks_axis:
            shapes = [("samples", *spec.shape)]
            if batched and spec.shape[:1] == (1,):
                shapes.append(("samples", *spec.shape[1:]))
            raise InputError(
                f"samples of input {spec.name!r} have shape {array.shape}",
                where=f"input {spec.name!r}",
                hint="expected " + " or ".join(f"({', '.join(map(str, shape))})" for shape in shapes),
            )
        if lacks_axis and array.shape[1:] != spec.shape:
            array = array[:, None]
        dtype = spec.dtype.numpy()
        found.append(array.astype(dtype) if spec.dtype.is_float and array.dtype.kind in "iu" else array)
    return found


def _array(samples: Any) -> Array:
    array = np.asarray(samples.numpy() if hasattr(samples, "numpy") else samples)
    if array.ndim == 0 or not len(array):
        raise InputError(
            f"samples of shape {array.shape} hold none", hint="pass an array whose first axis counts samples"
        )
    return array.astype(np.float32) if array.dtype == np.float64 else array
