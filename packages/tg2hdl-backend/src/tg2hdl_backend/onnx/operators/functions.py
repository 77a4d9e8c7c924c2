"""Operators that ONNX defines by functions of simpler ones, which are computed in their place."""

from __future__ import annotations

from tinygrad import Tensor

from tg2hdl_backend.onnx.node import OnnxNode

__all__ = ["expand"]


def expand(node: OnnxNode, *inputs: Tensor | None) -> tuple[Tensor, ...]:
    """Results of the function that ONNX defines the operator with."""
    return node.expand(*inputs)
