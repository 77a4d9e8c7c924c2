"""The inputs and outputs of a compiled model: their values, and the codes that stand for them in hardware."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tg2hdl_backend import TensorSpec
from tg2hdl_ir import DType
from tg2hdl_quant.graph import IntegerValue

__all__ = ["ModelTensor", "model_tensors"]


@dataclass(frozen=True, eq=False)
class ModelTensor:
    """An input or output: ``value = (code - zero_point) * scale + offset``.

    Without a quantizer codes are the values: scale 1, zero point and offset 0.

    Parameters
    ----------
    name : str
    shape : tuple of int
    dtype : DType
        Type of the values, as the model declares it.
    code_dtype : DType
        Type of the codes, which the hardware takes or gives.
    scale, offset : float or ndarray
        Broadcast against the tensor where they are arrays.
    zero_point : int
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    code_dtype: DType
    scale: float | npt.NDArray[np.float64] = 1.0
    zero_point: int = 0
    offset: float | npt.NDArray[np.float64] = 0.0

    @property
    def is_quantized(self) -> bool:
        """Whether codes stand for the values."""
        return self.dtype.is_float and not self.code_dtype.is_float


def model_tensors(
    specs: Sequence[TensorSpec], types: Sequence[DType], values: Sequence[IntegerValue]
) -> tuple[ModelTensor, ...]:
    """Inputs or outputs of a quantized model: in hardware, as declared, and how one becomes the other.

    Parameters
    ----------
    specs : sequence of TensorSpec
        As declared by the float model.
    types : sequence of DType
        In hardware.
    values : sequence of IntegerValue
        Scale, zero point and offset of each.
    """
    return tuple(
        ModelTensor(s.name, s.shape, dtype, s.dtype, _number(v.scale), v.zero, _number(v.offset))
        for s, dtype, v in zip(specs, types, values, strict=True)
    )


def _number(array: npt.NDArray[np.float64]) -> float | npt.NDArray[np.float64]:
    """A number where there is one."""
    return float(array.reshape(())) if array.size == 1 else array
