"""TFLM's integer arithmetic of 16-bit activations, in numpy; see `arithmetic`.

Functions are interpolated between the entries of tables: 256 sigmoids for LOGISTIC and TANH, two tables of 513 entries
for SOFTMAX.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.tensors.roundings import multipliers

__all__ = ["EXPONENTIALS", "RECIPROCALS", "SIGMOIDS", "short_multipliers", "table_argument"]

Array = npt.NDArray[Any]
_INT16 = 32767
_STEPS = 512


def short_multipliers(reals: npt.ArrayLike) -> tuple[Array, Array]:
    """Factors of 15 bits and right shifts for sums of 64 bits: ``(sum * factor + 2^(shift - 1)) >> shift``."""
    factor, left = multipliers(reals)
    return np.where(factor < 0x7FFF0000, (factor + (1 << 15)) >> 16, _INT16), 15 - left


def _sigmoids() -> Array:
    """65536 sigmoid(i / 24), each less half of the error of interpolation in the middle of its step."""

    def f(place: float) -> float:
        return 65536 / (1 + math.exp(-place / 24))

    moved = [f(i) - ((f(i) + f(i + 1)) / 2 - f(i + 0.5)) / 2 for i in range(255)]
    return np.array([math.floor(value + 0.5) for value in moved] + [65535])


SIGMOIDS = _sigmoids()


def table_argument(scale: float) -> tuple[int, int]:
    """Factor and right shift that take codes to steps of 1/12288; a scale of 2^-12 needs no rounding."""
    if scale == 2.0**-12:
        return 3, 0
    factor, shift = float(np.float32(scale)) * 4096 * 3, 0
    while factor <= _INT16 / 2 and shift <= 30:
        factor, shift = factor * 2, shift + 1
    return int(factor), shift


def _rounded(number: Any) -> Any:
    return np.trunc(number + np.copysign(np.float32(0.5), number))


def _interpolated(function: Callable[[Array], Array], first: np.float32, last: np.float32) -> Array:
    """513 entries in units of 2^-15, less half of the error that interpolation makes in the middle of each step.

    In float32, as TFLM computes them when it prepares the operator.
    """
    f = np.float32
    step = f((last - first) / f(_STEPS))
    place = np.arange(_STEPS, dtype=f)
    here, after = first + place * step, first + (place + f(1)) * step
    points, middles, nexts = (function(x) * f(32768) for x in (here, here + step / f(2), after))
    between = _rounded((nexts + _rounded(points)) / f(2))
    entries = _rounded(points) - _rounded((between - _rounded(middles)) / f(2))
    ends = np.append(entries, _rounded(function(np.array([last], f)) * f(32768)))
    return np.asarray(np.clip(ends, -32768, 32767).astype(np.int64))


def _scaled_ends(scale: float, zero: int) -> tuple[np.float32, np.float32]:
    """Values of the codes -32768 and 32767."""
    return np.float32(scale) * np.float32(-32768 - zero), np.float32(scale) * np.float32(_INT16 - zero)


EXPONENTIALS = _interpolated(
    lambda x: np.exp(x.astype(np.float64)).astype(np.float32), *_scaled_ends(10 / 65535, _INT16)
)
"""exp from -10 to 0."""
RECIPROCALS = _interpolated(lambda x: np.float32(1) / (np.float32(1) + x), *_scaled_ends(1 / 65535, -32768))
"""1 / (1 + x) from 0 to 1."""
