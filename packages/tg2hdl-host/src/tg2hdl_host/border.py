"""Values of a quantized model and the integers that stand for them in hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_host.description import dtype_named

__all__ = ["Border"]


@dataclass(frozen=True)
class Border:
    """Scale of an input or output: ``value = (integer - zero) * scale + offset``.

    Parameters
    ----------
    scale, offset : ndarray of float64
        Broadcast against the array.
    zero, low, high : int
        Integer that stands for `offset`, and the bounds of inputs.
    dtype : numpy.dtype
        Of the values, as the model declares them.
    shape : tuple of int, optional
        Of the values; that of the integers unless given.
    """

    scale: npt.NDArray[np.float64]
    offset: npt.NDArray[np.float64]
    zero: int
    low: int
    high: int
    dtype: np.dtype[Any] = np.dtype(np.float32)
    shape: tuple[int, ...] | None = None

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Border:
        """Read an entry of ``device.json``."""
        scale, offset = (np.asarray(data[name], np.float64) for name in ("scale", "offset"))
        shape = tuple(data["shape"]) if "shape" in data else None
        dtype = dtype_named(data.get("dtype", "float32"))
        return cls(scale, offset, data["zero"], data["low"], data["high"], dtype, shape)

    def quantized(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Integers of values: rounded half to even and clipped; in float32 unless there is an offset."""
        if np.any(self.offset):
            steps = np.rint((values - self.offset) / self.scale)
        else:
            steps = np.rint(values.astype(np.float32) / self.scale.astype(np.float32)).astype(np.float64)
        return np.asarray(np.clip(steps + self.zero, self.low, self.high), np.float64)

    def dequantized(self, integers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values of integers; values, and integers of the model such as class numbers, stay as they are."""
        array = integers if self.shape is None else integers.reshape(self.shape)
        scaled = self.zero or np.any(self.scale != 1) or np.any(self.offset)
        if array.dtype.kind not in "iu" or not (scaled or self.dtype.kind not in "iub"):
            return array.astype(self.dtype)
        values = (array.astype(np.int64) - self.zero) * self.scale + self.offset
        return (np.rint(values) if self.dtype.kind in "iub" else values.astype(np.float32)).astype(self.dtype)
