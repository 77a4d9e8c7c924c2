"""Models that bring their own scales, such as ONNX files with QuantizeLinear, as integer arithmetic."""

from tg2hdl_quant.graph.import_report import ImportReport, Requantization
from tg2hdl_quant.imported.model import import_graph, is_quantized

__all__ = ["ImportReport", "Requantization", "import_graph", "is_quantized"]
