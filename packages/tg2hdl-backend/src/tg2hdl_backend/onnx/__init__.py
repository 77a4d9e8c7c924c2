"""ONNX files as models: read by the onnx package, computed with tinygrad tensors."""

from __future__ import annotations

from tg2hdl_backend.onnx.model import OnnxModel
from tg2hdl_backend.onnx.node import DependsOnData, OnnxNode

__all__ = ["DependsOnData", "OnnxModel", "OnnxNode"]
