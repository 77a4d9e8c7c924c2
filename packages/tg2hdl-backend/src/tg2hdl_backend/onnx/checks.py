"""Types that ONNX infers, against which computed values are checked."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import onnx
import onnx.shape_inference
from onnx import ModelProto, TensorProto, TypeProto
from tinygrad import Tensor

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.tensors import element_type
from tg2hdl_backend.tinygrad_adapter.model_inputs import tinygrad_dtype
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import UnsupportedError

__all__ = ["ExpectedTypes", "infer_types"]

log = logging.getLogger("tg2hdl_backend")


@dataclass(frozen=True)
class ExpectedTypes:
    """Element types and shapes by the name of the value, as far as ONNX can infer them."""

    types: dict[str, tuple[int, tuple[int | None, ...] | None]]

    def check(self, node: OnnxNode, name: str, tensor: Tensor) -> Tensor:
        """The tensor in the type that ONNX says.

        Raises
        ------
        UnsupportedError
            For another shape, or another kind of number.
        """
        if name not in self.types:
            return tensor
        element, shape = self.types[name]
        if shape is not None and (
            len(shape) != tensor.ndim
            or any(want is not None and want != got for want, got in zip(shape, tensor.shape, strict=True))
        ):
            wanted = tuple("?" if s is None else s for s in shape)
            raise node.unsupported(f"the result {name!r} has shape {tensor.shape} where ONNX says {wanted}")
        if not element or element == TensorProto.STRING:
            # Text is numbers here, and only operators that make or copy text have such results.
            return tensor
        return as_type(node, name, tensor, element)


def as_type(node: OnnxNode, name: str, tensor: Tensor, element: int) -> Tensor:
    """The tensor in an ONNX element type: integers of another width, or a number whose type is open."""
    dtype = element_type(element, node.where)
    try:
        found = DType.from_tinygrad(tensor.dtype)
    except UnsupportedError:
        return tensor.cast(tinygrad_dtype(dtype))
    if found == dtype:
        return tensor
    if (found.is_int and dtype.is_int) or (found.is_float and dtype.is_float):
        return tensor.cast(tinygrad_dtype(dtype))
    raise node.unsupported(f"the result {name!r} is {found} where ONNX says {dtype}")


def infer_types(model: ModelProto, file: str) -> ExpectedTypes:
    """Types of all values of a model whose inputs have sizes; values that ONNX cannot infer are missing.

    Where a contradiction in the file ends the inference, a warning in the log says so, and nothing is compared.
    """
    for node in model.graph.node:
        # ONNX's inference takes 0 for the default of this attribute, which is 1.
        if node.op_type == "STFT" and not any(a.name == "onesided" for a in node.attribute):
            node.attribute.append(onnx.helper.make_attribute("onesided", 1))
    try:
        graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except onnx.shape_inference.InferenceError as error:
        log.warning(
            "%s: ONNX infers no types and shapes, so that results are not compared with them: %s", file, error
        )
        return ExpectedTypes({})
    types = {}
    for info in (*graph.value_info, *graph.output):
        if info.type.WhichOneof("value") == "tensor_type":
            types[info.name] = _type(info.type.tensor_type)
    return ExpectedTypes(types)


def _type(tensor: TypeProto.Tensor) -> tuple[int, tuple[int | None, ...] | None]:
    if not tensor.HasField("shape"):
        return tensor.elem_type, None
    sizes = tuple(
        d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else None for d in tensor.shape.dim
    )
    return tensor.elem_type, sizes
