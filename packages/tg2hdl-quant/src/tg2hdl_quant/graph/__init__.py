"""Post-training quantization of any model: its graph of tensors to a graph of integers."""

from tg2hdl_quant.graph.options import ACTIVATIONS, REQUANTIZATIONS, QuantizeOptions
from tg2hdl_quant.graph.quantized import QuantizedGraph, quantize_graph
from tg2hdl_quant.graph.report import LayerReport, QuantizationReport
from tg2hdl_quant.graph.values import Value

__all__ = [
    "ACTIVATIONS",
    "REQUANTIZATIONS",
    "LayerReport",
    "QuantizationReport",
    "QuantizeOptions",
    "QuantizedGraph",
    "Value",
    "quantize_graph",
]
