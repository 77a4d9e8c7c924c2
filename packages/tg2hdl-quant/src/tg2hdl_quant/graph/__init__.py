"""Models as graphs of integers: by post-training quantization, or with the scales that a file brings."""

from tg2hdl_quant.graph.options import ACTIVATIONS, REQUANTIZATIONS, QuantizeOptions
from tg2hdl_quant.graph.quantized import QuantizedGraph, import_graph, quantize_graph
from tg2hdl_quant.graph.report import ImportReport, LayerReport, QuantizationReport, Requantization
from tg2hdl_quant.graph.values import IntegerValue

__all__ = [
    "ACTIVATIONS",
    "REQUANTIZATIONS",
    "ImportReport",
    "IntegerValue",
    "LayerReport",
    "QuantizationReport",
    "QuantizeOptions",
    "QuantizedGraph",
    "Requantization",
    "import_graph",
    "quantize_graph",
]
