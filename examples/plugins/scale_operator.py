"""An operator of ONNX files: ``Scale`` of the domain ``com.example``, which multiplies by an attribute."""

from __future__ import annotations

from typing import Any

from tg2hdl_ir import OnnxOperatorDef, hookimpl


def scale(node: Any, x: Any) -> Any:
    """What the operator computes, with tinygrad's tensors."""
    return x * node.attributes["factor"]


@hookimpl
def tg2hdl_onnx_operators() -> list[OnnxOperatorDef]:
    """By domain and version of the operator set."""
    return [OnnxOperatorDef("Scale", scale, domain="com.example", since_version=1)]
