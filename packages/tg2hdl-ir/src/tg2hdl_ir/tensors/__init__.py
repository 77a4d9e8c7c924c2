"""A model before it is cut into kernels: operations on whole tensors."""

from tg2hdl_ir.tensors.evaluate import evaluate_graph, evaluate_nodes
from tg2hdl_ir.tensors.graph import GraphBuilder, LayerKernel, Quantizer, TensorGraph, TensorNode
from tg2hdl_ir.tensors.operations import ELEMENTWISE, MOVEMENT, REDUCTIONS

__all__ = [
    "ELEMENTWISE",
    "MOVEMENT",
    "REDUCTIONS",
    "GraphBuilder",
    "LayerKernel",
    "Quantizer",
    "TensorGraph",
    "TensorNode",
    "evaluate_graph",
    "evaluate_nodes",
]
