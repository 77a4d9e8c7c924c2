"""Integer graphs: of float graphs by calibration, and of graphs that bring their own quantizers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import DType, InputError, UnsupportedError
from tg2hdl_ir.errors import model_place
from tg2hdl_ir.tensors import LayerKernel, TensorGraph, evaluate_graph
from tg2hdl_quant.graph.calibrated import Lowering
from tg2hdl_quant.graph.concatenation import split_concatenations
from tg2hdl_quant.graph.import_check import check_import, check_roundings
from tg2hdl_quant.graph.imported import ImportLowering
from tg2hdl_quant.graph.lowered import Lowered, quantize_border
from tg2hdl_quant.graph.options import QuantizeOptions
from tg2hdl_quant.graph.ranges import calibration_method, means, observe
from tg2hdl_quant.graph.report import ImportReport, QuantizationReport, measure
from tg2hdl_quant.graph.samples import checked_labels, checked_samples
from tg2hdl_quant.graph.simplify import prune, simplify
from tg2hdl_quant.graph.steps import FLOAT, plan_storage
from tg2hdl_quant.graph.values import IntegerValue
from tg2hdl_quant.graph.weight_codes import WeightRounding

__all__ = ["QuantizedGraph", "import_graph", "quantize_graph"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class QuantizedGraph:
    """An integer graph with its borders and its report.

    Parameters
    ----------
    graph : TensorGraph
        Integer operations only.
    inputs, outputs : tuple of IntegerValue
        Scales at the borders.
    report : QuantizationReport or ImportReport
    input_types, output_types : tuple of DType
        Types of the inputs and outputs of the model that was quantized.
    """

    graph: TensorGraph
    inputs: tuple[IntegerValue, ...]
    outputs: tuple[IntegerValue, ...]
    report: QuantizationReport | ImportReport
    input_types: tuple[DType, ...]
    output_types: tuple[DType, ...]

    def quantize_input(self, number: int, x: npt.ArrayLike) -> Array:
        """Integers of an input: rounded half to even, clipped.

        Parameters
        ----------
        number : int
            Of the input.
        x : array_like
            In float, or codes.
        """
        return quantize_border(self.graph, self.inputs[number], number, x)

    def dequantize(self, number: int, integers: npt.ArrayLike) -> Array:
        """Values of an output in the type of the quantized model; the values do not change.

        Integers of the model, such as class numbers, stay integers.

        Parameters
        ----------
        number : int
            Of the output.
        integers : array_like
            Of the output's shape.
        """
        value, declared = self.outputs[number], self.output_types[number]
        codes = np.asarray(integers)
        scaled = value.zero or np.any(value.scale != 1) or np.any(value.offset)
        if codes.dtype.kind not in "iu" or not (scaled or declared.is_float):
            return codes.astype(declared.numpy())
        values = (codes.astype(np.int64) - value.zero) * value.scale + value.offset
        if not declared.is_float:
            return np.rint(values).astype(declared.numpy())
        return np.asarray(values, np.float32).astype(declared.numpy())

    def reference(self, *integers: npt.ArrayLike) -> list[Array]:
        """Outputs in numpy for integer inputs whose first axis counts samples."""
        return evaluate_graph(self.graph, integers)


def quantize_graph(
    graph: TensorGraph,
    samples: Sequence[Array],
    options: QuantizeOptions | None = None,
    labels: npt.ArrayLike | None = None,
    states: int = 0,
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
    states : int
        How many of the last inputs are state, whose next contents are as many of the last outputs: these get the scale
        of their input.

    Raises
    ------
    InputError
        For samples of another shape, empty, NaN or infinite, labels of another length, or an unknown method.
    UnsupportedError
        For an operation that has no integer form.
    """
    options = options or QuantizeOptions()
    nodes = [graph.nodes[n] for n in graph.inputs]
    arrays = checked_samples(
        graph.input_names, [n.shape for n in nodes], [n.dtype.numpy() for n in nodes], samples
    )
    classes = checked_labels(labels, len(arrays[0]))
    simple = simplify(graph)
    plan = plan_storage(simple, options.float_layers, options.allow_float)
    method = calibration_method(options.calibration)
    float_stored = [
        n for n, r in sorted(plan.roles.items()) if simple.nodes[n].dtype.is_float and r != {FLOAT}
    ]
    observed = observe(simple, arrays, float_stored, options.seed)
    mean = means(simple, arrays, plan.weighted_operands()) if options.bias_correction else None
    rounding = WeightRounding(options.weight_rounding, simple, arrays)
    lowered = Lowering(simple, plan, observed, method, options, rounding, mean, states).run()
    report = measure(graph, simple, lowered, arrays, classes, options, observed)
    return _quantized(graph, lowered, report)


def _quantized(
    graph: TensorGraph, lowered: Lowered, report: QuantizationReport | ImportReport
) -> QuantizedGraph:
    types = (tuple(graph.nodes[n].dtype for n in border) for border in (graph.inputs, graph.outputs))
    return QuantizedGraph(lowered.graph, lowered.inputs, lowered.outputs, report, *types)


def import_graph(
    graph: TensorGraph,
    *,
    allow_float: bool = True,
    kernels: Mapping[str, LayerKernel] | None = None,
    validate: str = "auto",
) -> QuantizedGraph:
    """Integer arithmetic for a graph that brings its own scales.

    Parameters
    ----------
    graph : TensorGraph
        With ``quantize`` and ``dequantize`` nodes.
    allow_float : bool
        Whether operations without an integer form are computed in float; the report names them.
    kernels : mapping of str to LayerKernel, optional
        How the runtime of the file computes each quantizer, by label; integer sums, each multiplied by a float32,
        unless given.
    validate : {"auto", "full", "each", "off"}
        Whether each layer is compared with the float graph on a few codes: within a budget, whatever that takes, or
        not.

    Raises
    ------
    InputError
        For a graph without quantizers.
    UnsupportedError
        For operations without an integer form, when float is not allowed, or a sum that needs more than 64 bits.
    ValidationError
        When a layer has other codes than the float graph.
    """
    if not any(n.op in ("quantize", "dequantize") for n in graph.nodes):
        raise InputError(
            f"model {graph.name} has no quantizers with known scales",
            hint="quantize it with tg2hdl.quantize(model, samples)",
        )
    simple = prune(split_concatenations(simplify(graph, keeps_divisions=True)))
    lowering = ImportLowering(simple, graph, kernels)
    lowered = lowering.run()
    if lowered.in_float and not allow_float:
        raise UnsupportedError(
            "no integer form for " + ", ".join(lowered.in_float),
            where=model_place(graph.name),
            hint="allow_float=True computes them in float; or take them out of the model",
        )
    note = ""
    if validate != "off":
        cuts = lowering.cuts(graph)
        is_full = validate != "auto"
        check_roundings(graph, lowered.graph, lowering.roundings)
        borders = lowered.inputs, lowered.outputs
        note = check_import(graph, lowered.graph, borders, cuts, lowering.how, is_full=is_full)
    report = ImportReport(tuple(lowering.how), lowered.in_float, (note,) if note else ())
    return _quantized(graph, lowered, report)
