"""Rules of a file: types that ONNX infers, operators of its opset, constant indices within an axis."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import onnx
import onnx.shape_inference
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto
from tinygrad import Tensor

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.tensors import element_type
from tg2hdl_backend.onnx.value import OnnxValue
from tg2hdl_backend.tinygrad_adapter.model_inputs import tinygrad_dtype
from tg2hdl_ir import DType, InputError, UnsupportedError

__all__ = ["ExpectedTypes", "check_indices", "check_opset", "infer_types"]

log = logging.getLogger("tg2hdl_backend")

_POOLS = frozenset({"AveragePool", "LpPool", "MaxPool"})


@dataclass(frozen=True)
class ExpectedTypes:
    """Element types and shapes by the name of the value, as far as ONNX can infer them."""

    types: dict[str, tuple[int, tuple[int | None, ...] | None]]

    def check(self, node: OnnxNode, name: str, tensor: Tensor) -> Tensor:
        """The tensor in the type that ONNX says.

        Parameters
        ----------
        node : OnnxNode
        name : str
            Of the result in the graph.
        tensor : Tensor

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


_HIDDEN = "SizeOfOnnxRuntime"
"""No operator of ONNX: the inference says nothing about its results."""


@contextmanager
def _as_computed(model: ModelProto) -> Iterator[None]:
    """Hide from ONNX's inference where its sizes are not those that the operators compute.

    It adds `output_padding` to the size that `auto_pad` gives, and with `ceil_mode` counts windows of padding only,
    which ONNX Runtime leaves out.
    """
    changed = []
    for node in model.graph.node:
        given = {a.name: a for a in node.attribute}
        same = "auto_pad" in given and given["auto_pad"].s.startswith(b"SAME")
        padded = node.op_type == "ConvTranspose" and same and "output_padding" in given
        rounds_up = node.op_type in _POOLS and "ceil_mode" in given and given["ceil_mode"].i
        if not node.domain and (padded or rounds_up):
            changed.append((node, node.op_type))
            node.op_type = _HIDDEN
    try:
        yield
    finally:
        for node, op_type in changed:
            node.op_type = op_type


_LONG = 1 << 16
"""Elements beyond which ONNX's inference takes long where it follows sizes through a file."""

_MAKE_SIZES = frozenset(
    {"ConstantOfShape", "Expand", "OneHot", "Pad", "Range", "Resize", "Tile", "Upsample"},
)


def _has_long_vectors(graph: GraphProto) -> bool:
    """Whether a value may be a vector with many elements: as ONNX infers, or because its size is computed."""
    known = {}
    for info in (*graph.value_info, *graph.output):
        tensor = info.type.tensor_type
        if tensor.HasField("shape"):
            dims = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
            known[info.name] = dims
            if len(dims) == 1 and dims[0] > _LONG:
                return True
    made = (name for n in graph.node if n.op_type in _MAKE_SIZES for name in n.output)
    return any(min(known.get(name, [-1]), default=1) < 0 for name in made) or any(
        map(_has_long_vectors, _inner_graphs(graph.node))
    )


def _inner_graphs(nodes: Iterable[NodeProto]) -> Iterator[GraphProto]:
    return (g for n in nodes for a in n.attribute for g in (a.g, *a.graphs) if g.node)


def _inferred(model: ModelProto, file: str) -> GraphProto:
    """The graph with the types and shapes that follow from those of its inputs, which fit its operators."""
    try:
        return onnx.shape_inference.infer_shapes(model, check_type=True).graph
    except onnx.shape_inference.InferenceError as error:
        onnx.shape_inference.infer_shapes(model)
        raise InputError(
            f"types that do not fit: {error}",
            where=file,
            hint="insert a Cast, or check the exporter with onnx.checker.check_model(model, full_check=True)",
        ) from error


def infer_types(model: ModelProto, file: str) -> ExpectedTypes:
    """Types of all values of a model whose inputs have sizes; values that ONNX cannot infer are missing.

    Where a contradiction of shapes ends the inference, a warning in the log says so, and nothing is compared.

    Parameters
    ----------
    model : ModelProto
        Its inputs have sizes.
    file : str
        Named in errors.

    Raises
    ------
    InputError
        For a node whose inputs have types that its operator does not take, or not together.
    """
    for node in model.graph.node:
        # ONNX's inference takes 0 for the default of this attribute, which is 1.
        if node.op_type == "STFT" and not any(a.name == "onesided" for a in node.attribute):
            node.attribute.append(onnx.helper.make_attribute("onesided", 1))
    with _as_computed(model):
        try:
            graph = _inferred(model, file)
            # It makes lists of all elements of vectors, of any type: a second for a million.
            if not _has_long_vectors(graph):
                graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        except onnx.shape_inference.InferenceError as error:
            log.warning(
                "%s: ONNX infers no types and shapes, so that results are not compared with them: %s",
                file,
                error,
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


def check_opset(info: OnnxNode) -> None:
    """Refuse an operator that its opset does not have yet.

    Raises
    ------
    InputError
        When ONNX has the operator, but only in a later version of the set.
    """
    if onnx.defs.has(info.op_type, info.version, info.domain) or not onnx.defs.has(info.op_type, info.domain):
        return
    last = onnx.defs.get_schema(info.op_type, info.domain).since_version
    first = next(n for n in range(1, last + 1) if onnx.defs.has(info.op_type, n, info.domain))
    raise InputError(
        f"ONNX operator {info.op_type} is not in version {info.version} of the operator set",
        where=info.where,
        hint=f"export the model with opset {first} or later, which has it",
    )


#: Axis of the data that an operator's indices count along: an attribute with its default, or None for leading axes.
_INDEXED = {
    "Gather": "axis",
    "GatherElements": "axis",
    "GatherND": None,
    "ScatterElements": "axis",
    "ScatterND": None,
}


def check_indices(info: OnnxNode, inputs: Sequence[OnnxValue | None]) -> None:
    """Refuse constant indices beyond the axis that they count along.

    Parameters
    ----------
    info : OnnxNode
    inputs : sequence of OnnxValue or None
        None for an absent one.

    Raises
    ------
    InputError
        For an index that no element of the data has.
    """
    if info.op_type not in _INDEXED or info.domain or len(inputs) < 2:
        return
    data, indices = inputs[0], info.known(1)
    if data is None or data.items is not None or indices is None or indices.size == 0:
        return
    shape = data.array.shape if data.is_known else data.tensor.shape
    if _INDEXED[info.op_type] is None:
        first = info.attribute("batch_dims", 0)
        limits = np.array(shape[first : first + indices.shape[-1]], np.int64)
    else:
        axis = info.attribute("axis", 0)
        if not -len(shape) <= axis < len(shape):
            return  # the operator's definition says so
        limits = np.array(shape[axis], np.int64)
    wrong = (indices < -limits) | (indices >= limits)
    if wrong.any():
        place = tuple(int(n) for n in np.argwhere(wrong)[0])
        raise InputError(
            f"ONNX operator {info.op_type}: index {int(indices[place])} at {place} is outside an axis of size "
            f"{int(np.broadcast_to(limits, indices.shape)[place])}",
            where=info.where,
            hint="indices count from 0, negative ones from the end",
        )
