"""ONNX files as models: read by the onnx package, computed with tinygrad tensors."""

from __future__ import annotations

from tg2hdl_ir import ToolMissingError

try:
    from tg2hdl_backend.onnx.model import OnnxModel
    from tg2hdl_backend.onnx.node import DependsOnData, OnnxNode
except ModuleNotFoundError as error:
    if error.name != "onnx":
        raise
    raise ToolMissingError(
        "ONNX files are read by the package onnx, which is not installed", hint='pip install "tg2hdl[onnx]"'
    ) from None

__all__ = ["DependsOnData", "OnnxModel", "OnnxNode"]
