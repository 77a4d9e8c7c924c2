"""Tensors of a graph while it is built, with bounds of their codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_tflite.file import TensorRecord

__all__ = ["LIMITS", "Bounds", "TfliteValue", "dtype_of", "tensor_of"]

Array = npt.NDArray[Any]

LIMITS = {"INT4": (-8, 7), "INT8": (-128, 127), "UINT8": (0, 255), "INT16": (-32768, 32767)}
"""Smallest and largest code by element type."""

_DTYPES: dict[str, Any] = {
    "FLOAT32": dtypes.float32,
    "INT32": dtypes.int32,
    "UINT8": dtypes.uint8,
    "INT64": dtypes.int64,
    "BOOL": dtypes.bool,
    "INT16": dtypes.int16,
    "INT8": dtypes.int8,
    "INT4": dtypes.int8,
    "UINT32": dtypes.uint32,
    "UINT16": dtypes.uint16,
}


def dtype_of(kind: str) -> Any:
    """tinygrad's type of an element type of the file; None where hardware has none."""
    return _DTYPES.get(kind)


def tensor_of(array: npt.ArrayLike, dtype: Any) -> Tensor:
    """A constant; one number is a literal of the program, not a memory.

    Parameters
    ----------
    array : array_like
    dtype : tinygrad DType
        Of the tensor.
    """
    found = np.asarray(array)
    if found.size and np.all(found == found.reshape(-1)[0]):
        number = found.reshape(-1)[0].item()
        return Tensor(number, dtype=dtype).reshape((1,) * found.ndim).expand(found.shape)
    kinds = {dtypes.int8: np.int8, dtypes.int16: np.int16, dtypes.int32: np.int32, dtypes.int64: np.int64}
    numpy = kinds.get(dtype)
    return Tensor(np.ascontiguousarray(found if numpy is None else found.astype(numpy)), dtype=dtype)


@dataclass(frozen=True, eq=False)
class Bounds:
    """Smallest and largest code: one of each, or one for each index of the last axis."""

    low: Array
    high: Array

    def with_code(self, code: int) -> Bounds:
        """Bounds that hold another code too."""
        return Bounds(np.minimum(self.low, code), np.maximum(self.high, code))

    @property
    def ends(self) -> tuple[int, int]:
        """Bounds of the whole tensor."""
        return int(self.low.min()), int(self.high.max())


@dataclass(frozen=True, eq=False)
class TfliteValue:
    """A tensor of the graph.

    Parameters
    ----------
    record : TensorRecord
    tensor : Tensor or None
        None for a constant that nothing has computed with yet.
    array : ndarray or None
        Contents of a constant.
    bounds : Bounds or None
        Of the codes of a quantized tensor.
    """

    record: TensorRecord
    made: Tensor | None
    array: Array | None = None
    bounds: Bounds | None = None

    @property
    def tensor(self) -> Tensor:
        """The elements as a tensor of tinygrad."""
        if self.made is not None:
            return self.made
        assert self.array is not None
        return tensor_of(self.array, dtype_of(self.record.kind))

    @property
    def scale(self) -> np.float32:
        """The scale of a tensor that has one."""
        return np.float32(self.record.scale[0])

    @property
    def zero(self) -> int:
        """The zero point of a tensor that has one."""
        return int(self.record.zero[0])

    @property
    def codes(self) -> Bounds:
        """Bounds of the codes; those of the type where no others are known."""
        if self.array is not None:
            return Bounds(np.array(self.array.min(initial=0)), np.array(self.array.max(initial=0)))
        if self.bounds is not None:
            return self.bounds
        low, high = LIMITS[self.record.kind]
        return Bounds(np.array(low), np.array(high))

    def steps(self) -> Tensor:
        """Codes less the zero point, as integers of 32 bits."""
        if not self.zero:
            return self.tensor.cast(dtypes.int32)
        return (self.tensor.cast(dtypes.int16) - self.zero).cast(dtypes.int32)
