"""Which quantizers of a file ONNX Runtime computes by its kernels for codes, and which in float32.

ONNX Runtime fuses dequantizers, an operator and a quantizer to one kernel when it recognizes them.  The rules here were
found by looking at the models that it saves with ``SessionOptions.optimized_model_filepath``; everything else is
computed in float32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from tg2hdl_ir.tensors import LayerKernel

__all__ = ["runtime_kernels"]

_FUSED = {
    "Add": "QLinearAdd",
    "Concat": "QLinearConcat",
    "Conv": "QLinearConv",
    "Gemm": "QGemm",
    "GlobalAveragePool": "QLinearGlobalAveragePool",
    "MatMul": "QLinearMatMul",
    "Mul": "QLinearMul",
}
"""Kernel for codes of each operator between quantizers; the others compute float32."""

_IN_FLOAT = ("QLinearAveragePool", "QLinearSoftmax", "QLinearReduceMean")
_WEIGHTED = ("Conv", "Gemm", "MatMul")
_BYTES = (TensorProto.UINT8, TensorProto.INT8)


def runtime_kernels(graph: GraphProto, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, LayerKernel]:
    """How ONNX Runtime computes each quantizer, by the name of its node.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        Constants of the graph.
    """
    file = _File(graph, arrays)
    names = Counter(_name(node) for node in graph.node)
    found: dict[str, LayerKernel] = {}
    for node in graph.node:
        kernel = file.kernel(node)
        if kernel is not None:
            found[_name(node)] = (
                kernel if names[_name(node)] == 1 else LayerKernel("", "two nodes have this name")
            )
    return found


def _name(node: NodeProto) -> str:
    return node.name or next(iter(node.output), "")


def _attribute(node: NodeProto, name: str, default: Any) -> Any:
    return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


class _File:
    """Who makes and who reads each tensor."""

    def __init__(self, graph: GraphProto, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._makers = {name: node for node in graph.node for name in node.output if name}
        self._readers = Counter(name for node in graph.node for name in node.input if name)
        self._readers.update(output.name for output in graph.output)
        for node in graph.node:
            for attribute in node.attribute:
                for inner in (attribute.g, *attribute.graphs):
                    self._readers.update(name for n in inner.node for name in n.input)
        self._arrays = dict(arrays)
        for node in graph.node:
            if node.op_type == "Constant" and isinstance(_attribute(node, "value", None), TensorProto):
                self._arrays[node.output[0]] = numpy_helper.to_array(_attribute(node, "value", None))

    def kernel(self, node: NodeProto) -> LayerKernel | None:
        """How a node's codes are made; None for one that makes no codes."""
        if node.op_type in _IN_FLOAT:
            return LayerKernel("float32", f"ONNX Runtime's {node.op_type} computes in float32")
        if node.op_type.startswith("QLinear") or node.op_type == "QGemm":
            return LayerKernel(node.op_type)
        if node.op_type in ("Quant", "IntQuant", "BipolarQuant", "Trunc"):
            return LayerKernel("float32", f"{node.op_type} is defined in float32")
        return self._unit(node) if node.op_type == "QuantizeLinear" else None

    def _unit(self, quantizer: NodeProto) -> LayerKernel:
        """The kernel for an operator between dequantizers and a quantizer."""
        path, cut = [quantizer.input[0]], ""
        node = self._makers.get(path[0])
        while node is not None and node.op_type in ("Relu", "Clip"):
            if not self._is_redundant(node, quantizer):
                cut = f"ONNX Runtime computes {node.op_type} before this quantizer in float32"
            path.append(node.input[0])
            node = self._makers.get(path[-1])
        if node is None:
            return LayerKernel("float32")
        if node.op_type in ("DequantizeLinear", "Identity"):
            # It makes one of two quantizers in a row, with other steps.
            made = self._makers.get(self._codes_of(node))
            if made is not None and made.op_type == "QuantizeLinear":
                return LayerKernel("", "ONNX Runtime may merge it with the quantizer before it")
            return LayerKernel("float32")
        reason = self._unfit(node, path, quantizer) or cut
        return LayerKernel("float32", reason) if reason else LayerKernel(_FUSED[node.op_type])

    def _codes_of(self, node: NodeProto) -> str:
        """The codes that a dequantizer reads."""
        while node.op_type == "Identity" and node.input[0] in self._makers:
            node = self._makers[node.input[0]]
        return node.input[0] if node.op_type == "DequantizeLinear" else ""

    def _unfit(self, node: NodeProto, path: list[str], quantizer: NodeProto) -> str:
        """Why an operator and its quantizers are not one kernel; empty where they are."""
        what = f"ONNX Runtime computes {node.op_type} in float32"
        if node.op_type not in _FUSED or node.domain not in ("", "ai.onnx"):
            return what
        if any(self._readers[name] > 1 for name in path):
            return f"{what}, whose result has several readers"
        inputs = [self._makers.get(name) for name in node.input if name]
        operands = inputs[:2] if node.op_type in _WEIGHTED else inputs
        if any(n is None or n.op_type != "DequantizeLinear" for n in operands):
            return f"{what}: an operand is not made of codes"
        first, *types = [self._code_type(n) for n in operands if n is not None]
        out = self._code_type(quantizer)
        # Weights may be int8 beside uint8, but not uint8 beside int8.
        others = {out, TensorProto.INT8} if node.op_type in _WEIGHTED else {out}
        if first != out or out not in _BYTES or not others.issuperset(types):
            return f"{what}: it has no kernel for codes of these types"
        activations = operands[:1] if node.op_type in _WEIGHTED else operands
        if any(n is not None and not self._is_one_scale(n) for n in (*activations, quantizer)):
            return f"{what}: an activation has several scales"
        return self._unfit_weights(node, inputs, what) if node.op_type in _WEIGHTED else ""

    def _unfit_weights(self, node: NodeProto, inputs: list[NodeProto | None], what: str) -> str:
        source, weights, *rest = inputs
        assert source is not None
        assert weights is not None
        scale = self._arrays.get(weights.input[1])
        codes = self._arrays.get(weights.input[0])
        if scale is None or (scale.size > 1 and codes is None):
            return f"{what}: the scale of its weights is not a constant"
        if scale.size > 1 and codes is not None:
            transposed = node.op_type == "Gemm" and _attribute(node, "transB", 0)
            axis = 0 if node.op_type == "Conv" or transposed else codes.ndim - 1
            if _attribute(weights, "axis", 1) % codes.ndim != axis or scale.shape != (codes.shape[axis],):
                return f"{what}: a scale for each input of the sum"
        if _attribute(node, "alpha", 1.0) != 1.0 or _attribute(node, "beta", 1.0) != 1.0:
            return f"{what}: alpha or beta is not 1"
        if not rest:
            return ""
        bias = rest[0]
        whole = None
        if bias is not None and bias.op_type == "DequantizeLinear":
            whole = self._arrays.get(bias.input[0])
        if whole is None or whole.dtype != np.int32 or bias is None:
            return f"{what}: its bias is float32"
        zero = self._arrays.get(bias.input[2]) if len(bias.input) > 2 and bias.input[2] else np.zeros(1)
        steps, step = self._arrays.get(bias.input[1]), self._arrays.get(source.input[1])
        if zero is None or np.any(zero) or steps is None or step is None:
            return f"{what}: the scale of its bias is not a constant"
        # ONNX Runtime takes the codes of the bias as they are.
        ratio = steps.astype(np.float64) / (step.astype(np.float64) * scale.reshape(-1))
        wrong = np.abs(ratio - 1)
        if wrong.max() > 1e-6 or np.any(np.abs(whole.reshape(-1).astype(np.float64)) * wrong > 0.25):
            return f"{what}: the scale of its bias is not that of its products"
        return ""

    def _is_redundant(self, node: NodeProto, quantizer: NodeProto) -> bool:
        """Whether a rectifier only cuts off what the quantizer cuts off."""
        scale, zero = self._arrays.get(quantizer.input[1]), self._zero(quantizer)
        if scale is None or zero is None or scale.size != 1 or zero.size != 1:
            return False
        limits, step, at = np.iinfo(zero.dtype), float(scale.reshape(())), int(zero.reshape(()))
        if node.op_type == "Relu":
            return at == limits.min
        low, high = (
            self._arrays.get(node.input[n]) if len(node.input) > n and node.input[n] else default
            for n, default in ((1, np.array(-np.inf)), (2, np.array(np.inf)))
        )
        if _attribute(node, "min", None) is not None or _attribute(node, "max", None) is not None:
            return False
        if low is None or high is None:
            return False
        return (
            float(low.reshape(())) <= (limits.min - at) * step
            and float(high.reshape(())) >= (limits.max - at) * step
        )

    def _zero(self, node: NodeProto) -> npt.NDArray[Any] | None:
        return self._arrays.get(node.input[2]) if len(node.input) > 2 else None

    def _code_type(self, node: NodeProto) -> int:
        """Element type of a quantizer's codes, by its zero point; 0 where it has none."""
        zero = self._zero(node)
        return 0 if zero is None else helper.np_dtype_to_tensor_dtype(zero.dtype)

    def _is_one_scale(self, node: NodeProto) -> bool:
        scale = self._arrays.get(node.input[1])
        return scale is not None and scale.size == 1
