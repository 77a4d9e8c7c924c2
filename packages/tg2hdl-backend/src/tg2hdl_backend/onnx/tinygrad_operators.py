"""Operators for which tinygrad's own importer is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tinygrad import Tensor
from tinygrad.nn import onnx as tinygrad_onnx

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.tensors import tensor_of

__all__ = ["constant_positions", "tinygrad_operator"]

# Names that tinygrad has without regard to the domain.
_OTHER_DOMAINS = {
    "com.microsoft": {
        "Attention",
        "EmbedLayerNormalization",
        "SkipLayerNormalization",
    },
    "ai.onnx.preview.training": {"Adagrad", "Adam", "Momentum"},
}
# Names of tinygrad that are not ONNX's own operators, or that compute something else.
_ELSEWHERE = {
    "ArrayFeatureExtractor",
    "BiasGelu",
    "Binarizer",
    "EmbedLayerNormalization",
    "FastGelu",
    "Gradient",
    "ImageDecoder",
    "If",
    "QLinearAdd",
    "QLinearGlobalAveragePool",
    "QLinearMul",
    "SkipLayerNormalization",
}


def constant_positions(op_type: str) -> tuple[int, ...]:
    """Inputs that tinygrad's importer reads as numbers while the graph is built."""
    return tuple(tinygrad_onnx.required_input_python_consts.get(op_type, ()))


def tinygrad_operator(op_type: str, domain: str, version: int) -> Callable[..., Any] | None:
    """Definition ``(node, *inputs)`` with the implementation of tinygrad; None without one.

    Parameters
    ----------
    op_type : str
    domain : str
        Empty for ONNX's own.
    version : int
        Of the operator set.
    """
    if op_type in _ELSEWHERE if domain == "" else op_type not in _OTHER_DOMAINS.get(domain, ()):
        return None
    found: Any = tinygrad_onnx.onnx_ops.get(op_type)
    if isinstance(found, dict):
        name = domain or "ai.onnx"
        fitting = {i.version: f for i, f in found.items() if i.domain.value == name and i.version <= version}
        found = fitting[max(fitting)] if fitting else None
    if found is None:
        return None

    def build(node: OnnxNode, *inputs: Any) -> Any:
        options = {name: _option(value) for name, value in node.attributes.items()}
        if op_type == "Split":
            options.setdefault("num_outputs", len(node.outputs))
        return found(*_arguments(op_type, inputs), **options)

    return build


def _option(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return tensor_of(value)
    return tuple(value) if isinstance(value, list) else value


def _python(array: np.ndarray[Any, Any]) -> Any:
    return array.tolist()


def _arguments(op_type: str, inputs: Sequence[Any]) -> list[Any]:
    axes = op_type in ("Squeeze", "Unsqueeze") or op_type.startswith("Reduce")
    return [_python(np.atleast_1d(x) if axes else x) if isinstance(x, np.ndarray) else x for x in inputs]


def as_tensor(value: Any) -> Tensor:
    """Result of tinygrad's importer, which returns numbers now and then."""
    return value if isinstance(value, Tensor) else tensor_of(np.asarray(value))
