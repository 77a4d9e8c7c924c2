"""Values of a quantized model and the integers that stand for them in hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_host import documents as docs
from tg2hdl_host.description import Buffer, dtype_named
from tg2hdl_host.errors import ConnectionFailedError

__all__ = ["Border"]

_MOST = 1 << 53


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
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float32))
    shape: tuple[int, ...] | None = None

    @classmethod
    def parse(cls, data: Mapping[str, Any], buffer: Buffer | None) -> Border:
        """Read an entry of ``device.json``, for a buffer that the design has unless it is None.

        Parameters
        ----------
        data : mapping of str to object
            Entry of ``device.json``.
        buffer : Buffer or None
            Buffer of the design; its shape must hold the scales.

        Raises
        ------
        ConnectionFailedError
            For an entry that does not fit.
        """
        try:
            scale, offset = (np.asarray(data[name], np.float64) for name in ("scale", "offset"))
            if not np.all(np.isfinite(offset)) or not np.all((scale > 0) & (scale < np.inf)):
                raise ValueError(f"a scale of {data['scale']!r:.40} and an offset of {data['offset']!r:.40}")
            if (
                buffer is not None
                and np.broadcast_shapes(scale.shape, offset.shape, buffer.shape) != buffer.shape
            ):
                raise ValueError(f"scales of shape {scale.shape} for {buffer.shape}")
            low, most = docs.integer(data["low"], -_MOST, _MOST), _MOST
            shape = docs.shape(data["shape"]) if "shape" in data else None
            dtype = dtype_named(docs.text(data.get("dtype", "float32")))
            high, zero = docs.integer(data["high"], low, most), docs.integer(data["zero"], -most, most)
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise ConnectionFailedError(
                f"the scales in device.json cannot be read: {error!r}",
                stage="identity",
                hint="build the folder again with `tg2hdl build`",
            ) from error
        return cls(scale, offset, zero, low, high, dtype, shape)

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
