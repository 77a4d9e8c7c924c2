"""A graph with quantizers as an integer model."""

from __future__ import annotations

from collections.abc import Mapping

from tg2hdl_ir.errors import InputError, UnsupportedError
from tg2hdl_ir.tensors import LayerKernel, TensorGraph
from tg2hdl_quant.graph.import_report import ImportReport
from tg2hdl_quant.graph.quantized import QuantizedGraph, border_types
from tg2hdl_quant.graph.simplify import prune, simplify
from tg2hdl_quant.imported.check import check_import, check_roundings
from tg2hdl_quant.imported.concatenation import split_concatenations
from tg2hdl_quant.imported.lower import ImportLowering

__all__ = ["import_graph", "is_quantized"]


def is_quantized(graph: TensorGraph) -> bool:
    """Whether a graph has quantizers."""
    return any(n.op in ("quantize", "dequantize") for n in graph.nodes)


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
    if not is_quantized(graph):
        raise InputError(
            f"model {graph.name} has no quantizers with known scales",
            hint="quantize it with tg2hdl.quantize(model, samples)",
        )
    simple = prune(split_concatenations(simplify(graph, keeps_divisions=True)))
    lowering = ImportLowering(simple, graph, kernels)
    integer, inputs, outputs = lowering.run()
    names = tuple(lowering.in_float)
    if names and not allow_float:
        raise UnsupportedError(
            "no integer form for " + ", ".join(names),
            where=f"model {graph.name}",
            hint="allow float for them, or take them out of the model",
        )
    note = ""
    if validate != "off":
        cuts = lowering.cuts(graph)
        is_full = validate != "auto"
        check_roundings(graph, integer, lowering.roundings)
        note = check_import(graph, integer, (inputs, outputs), cuts, lowering.how, is_full=is_full)
    report = ImportReport(tuple(lowering.how), names, (note,) if note else ())
    return QuantizedGraph(integer, inputs, outputs, report, *border_types(graph))
