"""Quantization of a whole graph: calibrate, lower to integers, measure what it cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.errors import InputError
from tg2hdl_ir.plugins.descriptors import resolve
from tg2hdl_ir.plugins.registry import registry
from tg2hdl_ir.tensors import TensorGraph, evaluate_graph
from tg2hdl_quant.graph.border import quantize_border
from tg2hdl_quant.graph.import_report import ImportReport
from tg2hdl_quant.graph.lower import Lowering
from tg2hdl_quant.graph.options import QuantizeOptions
from tg2hdl_quant.graph.ranges import Observed, means, observe
from tg2hdl_quant.graph.report import QuantizationReport, measure
from tg2hdl_quant.graph.simplify import simplify
from tg2hdl_quant.graph.steps import plan_storage
from tg2hdl_quant.graph.values import Value

__all__ = ["QuantizedGraph", "quantize_graph"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class QuantizedGraph:
    """An integer graph with its borders and its report.

    Parameters
    ----------
    graph : TensorGraph
        Integer operations only.
    inputs, outputs : tuple of Value
        Scales at the borders.
    report : QuantizationReport or ImportReport
    """

    graph: TensorGraph
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    report: QuantizationReport | ImportReport

    def quantize_input(self, number: int, x: npt.ArrayLike) -> Array:
        """Integers of an input: rounded half to even, clipped."""
        return quantize_border(self.graph, self.inputs[number], number, x)

    def dequantize(self, number: int, integers: npt.ArrayLike) -> Array:
        """Values of an output; integers of the model stay integers."""
        value = self.outputs[number]
        codes = np.asarray(integers)
        if codes.dtype.kind != "f":
            codes = codes.astype(np.int64) - value.zero
        return np.asarray(codes * value.scale + value.offset, np.float32)

    def reference(self, *integers: npt.ArrayLike) -> list[Array]:
        """Outputs in numpy for integer inputs whose first axis counts samples."""
        return evaluate_graph(self.graph, integers)


def quantize_graph(
    graph: TensorGraph,
    samples: Sequence[Array],
    options: QuantizeOptions | None = None,
    labels: npt.ArrayLike | None = None,
) -> QuantizedGraph:
    """Quantize a float graph to integers.

    Parameters
    ----------
    graph : TensorGraph
    samples : sequence of ndarray
        One array per input; its first axis counts samples, the rest is the shape of the input.
    options : QuantizeOptions, optional
    labels : array_like of int, optional
        The right class of each sample, for the accuracies of the report.

    Raises
    ------
    InputError
        For samples of another shape, empty, NaN or infinite, labels of another length, or an unknown method.
    UnsupportedError
        For an operation that has no integer form.
    """
    options = options or QuantizeOptions()
    arrays = _checked(graph, samples)
    classes = _checked_labels(labels, len(arrays[0]))
    simple = simplify(graph)
    plan = plan_storage(simple)
    method = _method(options.calibration)
    float_stored = [n for n in sorted(plan.roles) if simple.nodes[n].dtype.is_float]
    observed = observe(simple, arrays, float_stored, options.seed)
    mean = means(simple, arrays, plan.weighted_operands()) if options.bias_correction else None
    lowered = Lowering(plan, observed, method, options, mean).run()
    report = measure(graph, simple, lowered, arrays, classes, options, observed)
    return QuantizedGraph(lowered.graph, lowered.inputs, lowered.outputs, report)


def _method(name: str) -> Callable[[Observed, int], tuple[float, float]]:
    known = {q.name: q.calibrate for q in registry().quantizers() if q.calibrate is not None}
    if name not in known:
        raise InputError(
            f"no calibration method {name!r}",
            notes=(f"registered: {', '.join(known)}",),
            hint="install the plugin that registers it, or name another",
        )
    calibrate = resolve(known[name])
    return lambda observed, bits: calibrate(observed.values, bits)


def _checked(graph: TensorGraph, samples: Sequence[Array]) -> list[Array]:
    if len(samples) != len(graph.inputs):
        raise InputError(
            f"samples for {len(samples)} inputs, the model has {len(graph.inputs)}",
            hint="pass one array per input: " + ", ".join(graph.input_names),
        )
    arrays = []
    for name, number, given in zip(graph.input_names, graph.inputs, samples, strict=True):
        array, shape = np.asarray(given), graph.nodes[number].shape
        if array.shape[1:] != shape or not len(array):
            raise InputError(
                f"samples of input {name!r} have shape {array.shape}",
                where=f"input {name!r}",
                hint=f"expected (samples, {', '.join(map(str, shape))})",
            )
        if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
            index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            kind = "NaN" if np.isnan(array[index]) else "an infinity"
            raise InputError(
                f"samples of input {name!r} have {kind} at index {index}",
                where=f"input {name!r}",
                notes=(f"{int((~np.isfinite(array)).sum())} of {array.size} elements are not finite",),
                hint="remove these samples, or clip them with numpy.nan_to_num",
            )
        arrays.append(array.astype(graph.nodes[number].dtype.numpy()))
    if len({len(a) for a in arrays}) != 1:
        raise InputError(
            "the inputs have different numbers of samples: " + ", ".join(str(len(a)) for a in arrays)
        )
    return arrays


def _checked_labels(labels: npt.ArrayLike | None, count: int) -> Array | None:
    if labels is None:
        return None
    array = np.asarray(labels)
    if array.shape != (count,):
        raise InputError(
            f"labels of shape {array.shape} for {count} samples",
            hint=f"expected one label a sample: ({count},)",
        )
    return array
