"""A model before it is cut into kernels: operations on whole tensors."""

from tg2hdl_ir.tensors.evaluate import evaluate_graph, evaluate_nodes
from tg2hdl_ir.tensors.graph import (
    ELEMENTWISE,
    MOVEMENT,
    GraphBuilder,
    LayerKernel,
    Quantizer,
    TensorGraph,
    TensorNode,
)

__all__ = [
    "ELEMENTWISE",
    "MOVEMENT",
    "GraphBuilder",
    "LayerKernel",
    "Quantizer",
    "TensorGraph",
    "TensorNode",
    "evaluate_graph",
    "evaluate_nodes",
]
