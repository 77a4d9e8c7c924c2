"""Arrays of an ONNX file as tensors, and the element types that both have."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper
from tinygrad import Tensor

from tg2hdl_backend.tinygrad_adapter.model_inputs import tinygrad_dtype
from tg2hdl_ir import DType, InputError, UnsupportedError

__all__ = ["array_of", "element_type", "onnx_type", "sizes_of", "tensor_of", "to_dtype", "type_name"]

_TYPES: dict[int, DType] = {
    TensorProto.BOOL: DType.BOOL,
    TensorProto.INT8: DType.INT8,
    TensorProto.INT16: DType.INT16,
    TensorProto.INT32: DType.INT32,
    TensorProto.INT64: DType.INT64,
    TensorProto.UINT8: DType.UINT8,
    TensorProto.UINT16: DType.UINT16,
    TensorProto.UINT32: DType.UINT32,
    TensorProto.UINT64: DType.UINT64,
    TensorProto.FLOAT8E4M3FN: DType.FP8_E4M3,
    TensorProto.FLOAT8E5M2: DType.FP8_E5M2,
    TensorProto.FLOAT16: DType.FP16,
    TensorProto.BFLOAT16: DType.BF16,
    TensorProto.FLOAT: DType.FP32,
    TensorProto.DOUBLE: DType.FP64,
}
# Constants of these types are stored in bytes with the same values.
_WIDENED = {"int4": np.int8, "uint4": np.uint8, "int2": np.int8, "uint2": np.uint8}


def type_name(element: int) -> str:
    """Name of an ONNX element type, e.g. ``FLOAT16``."""
    known = element in TensorProto.DataType.values()
    return str(TensorProto.DataType.Name(element)) if known else f"element type {element}"


def element_type(element: int, where: str | None = None) -> DType:
    """Hardware type of an ONNX element type.

    Parameters
    ----------
    element : int
        Number of `TensorProto.DataType`.
    where : str, optional
        Node, for the error.

    Raises
    ------
    UnsupportedError
        For a type without hardware.
    """
    if element not in _TYPES:
        raise UnsupportedError(
            f"no hardware type for ONNX's {type_name(element)}",
            where=where,
            hint="cast to one of " + ", ".join(type_name(t) for t in _TYPES),
        )
    return _TYPES[element]


def onnx_type(dtype: DType) -> int:
    """ONNX element type of a hardware type."""
    return next(element for element, known in _TYPES.items() if known == dtype)


def to_dtype(element: int, where: str | None = None) -> Any:
    """Tinygrad dtype of an ONNX element type.

    Parameters
    ----------
    element : int
        Number of `TensorProto.DataType`.
    where : str, optional
        Node, for the error.
    """
    return tinygrad_dtype(element_type(element, where))


def array_of(proto: TensorProto, where: str | None = None) -> npt.NDArray[Any]:
    """Contents of a tensor of the file; integers below a byte are widened to bytes.

    Parameters
    ----------
    proto : TensorProto
    where : str, optional
        Node, for the error.

    Raises
    ------
    InputError
        When there are not as many bytes as its shape needs.
    UnsupportedError
        For strings and other types without hardware.
    """
    if proto.data_type not in TensorProto.DataType.values():
        element_type(proto.data_type, where)
    name = helper.tensor_dtype_to_np_dtype(proto.data_type).name
    if name not in _WIDENED:
        element_type(proto.data_type, where)
    try:
        array: npt.NDArray[Any] = numpy_helper.to_array(proto)
    except ValueError as error:
        raise InputError(
            f"the contents of tensor {proto.name!r} do not fit its shape {tuple(proto.dims)}: {error}",
            where=where,
            hint="the file or its external data is damaged or of another model: export it again",
        ) from error
    return array.astype(_WIDENED[name]) if name in _WIDENED else array


def sizes_of(tensor: Tensor) -> tuple[int, ...]:
    """Shape of a tensor of an ONNX graph, whose sizes are all known."""
    return tuple(int(size) for size in tensor.shape)


def tensor_of(array: npt.NDArray[Any], where: str | None = None) -> Tensor:
    """Tensor with the contents of an array, on the default device.

    Parameters
    ----------
    array : ndarray
    where : str, optional
        Node, for the error.

    Raises
    ------
    UnsupportedError
        For an element type without hardware.
    """
    array = np.ascontiguousarray(array).reshape(np.shape(array))
    dtype = tinygrad_dtype(element_type(helper.np_dtype_to_tensor_dtype(array.dtype), where))
    if not array.size:
        return Tensor.empty(*array.shape, dtype=dtype)
    if array.dtype.kind == "V" or array.dtype.name.startswith(("bfloat", "float8")):
        return Tensor(array.tobytes(), dtype=dtype).reshape(array.shape)
    return Tensor(array, dtype=dtype)
