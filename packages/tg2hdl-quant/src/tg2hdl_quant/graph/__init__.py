"""Post-training quantization of any model: its graph of tensors to a graph of integers."""

from tg2hdl_quant.graph.options import QuantizeOptions
from tg2hdl_quant.graph.quantized import QuantizedGraph, quantize_graph
from tg2hdl_quant.graph.report import LayerReport, QuantizationReport

__all__ = ["LayerReport", "QuantizationReport", "QuantizeOptions", "QuantizedGraph", "quantize_graph"]
