"""Any float model to integers: ``tg2hdl.quantize``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from os import PathLike, fspath
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl.model_file import check_no_file_options, file_option_names, load_model_file
from tg2hdl.progress import step
from tg2hdl.quantized_model import QuantizedModel
from tg2hdl_backend import TensorSpec, tensor_graph
from tg2hdl_backend.arguments import in_input_order
from tg2hdl_backend.tinygrad_adapter.model_inputs import parameter_names
from tg2hdl_backend.tinygrad_adapter.tensor_graph import stateful_graph
from tg2hdl_ir import InputError
from tg2hdl_ir.tensors import TensorGraph, evaluate_graph
from tg2hdl_ir.turns import compiles
from tg2hdl_quant.graph import QuantizationReport, QuantizeOptions, quantize_graph

__all__ = ["first_samples", "quantize", "sample_arrays", "samples_as_declared"]

Array = npt.NDArray[Any]


@compiles
def quantize(
    model: Callable[..., Any] | str | PathLike[str],
    samples: Any,
    *,
    bits: int | Mapping[str, int] | None = None,
    weights: int | None = None,
    activations: int | str | None = None,
    labels: npt.ArrayLike | None = None,
    batched: bool = True,
    sequences: bool = False,
    options: QuantizeOptions | None = None,
    **further: Any,
) -> QuantizedModel:
    """Quantize a float model to integers, calibrated on samples.

    Parameters
    ----------
    model : callable or path
        As for `tg2hdl.compile`: a function of Tensors, an object with ``__call__``, or a file.
    samples : array, tuple of arrays, or mapping of str to array
        One array per input, in their order or by name; its first axis counts samples.  The model gets one sample at a
        time, with a batch axis of size 1 in front unless a file declares an input of the sample's own shape.
    batched : bool
        Whether to add that axis; without, the model gets exactly ``samples[i]``.
    sequences : bool
        Whether the samples are the steps of one sequence, in their order: the model's state is carried
        from sample to sample.  Its state becomes integers that stay in the design, and
        ``report.error_by_position`` of the result has the error at each step.
    bits : int or mapping of str to int, optional
        Width of activations and weights (bits, 2 to 16); 8 unless given.  A mapping gives widths of the weights of
        single layers by the names of the report, as the option `layers`.
    weights, activations : int, optional
        A preset such as ``weights=9, activations=16``: widths of both (the options `weight_bits` and `bits`), and a
        scale of any value for each row of the weights (``requantization="multiplier"``) unless that is given.  On
        an ECP5 nine bits cost the same as eight.  Further `group` gives groups of a row scales of their own, and
        ``weight_rounding="compensated"`` rounds weights together.  `activations` may also be the option of that name,
        ``symmetric`` or ``affine``.
    labels : array of int, optional
        Correct class of each sample, for the accuracies of the report.
    options : QuantizeOptions, optional
        Everything else.
    further
        Single fields of `options` by name, and options of the file's front end.

    Raises
    ------
    InputError
        For samples of another shape, empty, NaN or infinite, labels of another length, an unknown option, or a model
        that is quantized already.
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
    of_file = {name: further.pop(name) for name in file_option_names() - known if name in further}
    if unknown := [name for name in further if name not in known]:
        meant = get_close_matches(unknown[0], [*known, *file_option_names()], 1)
        raise InputError(
            f"tg2hdl.quantize has no option {unknown[0]!r}",
            hint=f"did you mean {meant[0]}=...?" if meant else "choose one of: " + ", ".join(sorted(known)),
        )
    further |= _preset(weights, activations, bits, further)
    if bits is not None:
        further["layers" if isinstance(bits, Mapping) else "bits"] = bits
    chosen = replace(options or QuantizeOptions(), **further)
    given = sample_arrays(samples)
    if isinstance(model, str | PathLike):
        model = load_model_file(fspath(model), first_samples(given, batched), True, **of_file).model
    else:
        check_no_file_options(of_file)
    if isinstance(model, QuantizedModel) or getattr(model, "is_integer", False):
        raise InputError(
            f"model {getattr(model, '__name__', 'model')} is quantized already",
            hint="compile it, or quantize the float model",
        )
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
        names = getattr(model, "output_names", None)
        if not sequences:
            graph = tensor_graph(model, *(a[0] for a in arrays))
            return QuantizedModel(quantize_graph(graph, arrays, chosen, labels), names)
        graph, first = stateful_graph(model, *(a[0] for a in arrays))
        if labels is not None or len({len(a) for a in arrays}) != 1:
            raise InputError(
                "sequences=True takes no labels, and as many samples of each input",
                hint="leave labels out, and give arrays of one length",
            )
        states, results = _run_in_order(graph, arrays, list(first.values()))
        made = quantize_graph(graph, [*arrays, *states], chosen, states=len(states))
        model = QuantizedModel(made, names, first)
        return _with_errors(model, arrays, results)


def _preset(weights: Any, activations: Any, bits: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options for `weights` and `activations`."""
    found: dict[str, Any] = {} if weights is None else {"weight_bits": weights}
    if isinstance(activations, str):
        found["activations"] = activations
    elif activations is not None:
        found["bits"] = activations
    twice = [name for name in found if name in given or (name == "bits" and isinstance(bits, int))]
    if twice:
        raise InputError(
            f"{twice[0]} is given twice", hint="give weights= and activations=, or bits= and weight_bits="
        )
    if found.keys() - {"activations"} and "requantization" not in given:
        found["requantization"] = "multiplier"
    return found


def _run_in_order(
    graph: TensorGraph, arrays: Sequence[Array], first: Sequence[Array]
) -> tuple[list[Array], list[Array]]:
    """States before each sample and outputs of each, as the float graph carries them on."""
    count = len(graph.outputs) - len(first)
    state, before, results = [a[None] for a in first], [], []
    for number in range(len(arrays[0])):
        before.append(state)
        found = evaluate_graph(graph, [*(a[number : number + 1] for a in arrays), *state])
        results.append(found[:count])
        state = found[count:]
    columns = (zip(*rows, strict=True) for rows in (before, results))
    states, outputs = ([np.concatenate(column) for column in each] for each in columns)
    return states, outputs


def _with_errors(model: QuantizedModel, arrays: Sequence[Array], results: Sequence[Array]) -> QuantizedModel:
    """The model with the error at each position in its report."""
    found = model.evaluate(*arrays)
    outputs = found if isinstance(found, tuple) else (found,)
    steps = len(arrays[0])
    squares = [
        np.square(np.asarray(a, np.float64) - b).reshape(steps, -1)
        for a, b in zip(outputs, results, strict=True)
    ]
    errors = np.sqrt(np.concatenate(squares, axis=1).mean(axis=1))
    assert isinstance(model.report, QuantizationReport), "it was quantized"
    model.report = replace(model.report, error_by_position=tuple(errors.tolist()))
    return model


def sample_arrays(samples: Any) -> dict[str, Array] | list[Array]:
    """Samples as arrays, by name or in the order of the inputs.

    Raises
    ------
    InputError
        For an array without samples.
    """
    if isinstance(samples, Mapping):
        return {name: _array(s) for name, s in samples.items()}
    return [_array(s) for s in (samples if isinstance(samples, tuple) else (samples,))]


def first_samples(samples: Sequence[Any] | Mapping[str, Any], batched: bool) -> list[Any] | dict[str, Any]:
    """Example inputs for the sizes of a file: the first sample, with a batch axis where there may be one.

    Parameters
    ----------
    samples : sequence or mapping of str to object
        One array for each input; the first axis counts the samples.
    batched : bool
        Whether inputs have a batch axis, of size 1.
    """
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
