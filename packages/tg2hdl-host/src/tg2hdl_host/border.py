"""Values of a quantized model and the integers that stand for them in hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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
    """

    scale: npt.NDArray[np.float64]
    offset: npt.NDArray[np.float64]
    zero: int
    low: int
    high: int

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Border:
        """Read an entry of ``device.json``."""
        scale, offset = (np.asarray(data[name], np.float64) for name in ("scale", "offset"))
        return cls(scale, offset, data["zero"], data["low"], data["high"])

    def quantized(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Integers of values: rounded half to even and clipped; in float32 unless there is an offset."""
        if np.any(self.offset):
            steps = np.rint((values - self.offset) / self.scale)
        else:
            steps = np.rint(values.astype(np.float32) / self.scale.astype(np.float32)).astype(np.float64)
        return np.asarray(np.clip(steps + self.zero, self.low, self.high), np.float64)

    def dequantized(self, integers: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Values of integers."""
        codes = integers if integers.dtype.kind == "f" else integers.astype(np.int64) - self.zero
        return np.asarray(codes * self.scale + self.offset, np.float32)
