"""How far results are from those of an independent reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import DType, InputError

__all__ = ["Agreement", "agreement", "tolerance_of"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Agreement:
    """Comparison of one result with its reference.

    Parameters
    ----------
    elements, different : int
        Compared elements, and those of another value; NaN equals NaN, zeros of both signs are equal.
    error : float
        Largest absolute difference; infinite where only one side is NaN or an infinity.
    scale : float
        Largest finite magnitude of the reference.
    tolerance : float
        Allowed error relative to `scale`; 0 for integers.
    first : int
        Flat index of the first element beyond the tolerance; -1 without one.
    """

    elements: int
    different: int
    error: float
    scale: float
    tolerance: float
    first: int

    @property
    def agrees(self) -> bool:
        """Whether every element is within the tolerance."""
        return self.first < 0

    @property
    def relative(self) -> float:
        """Largest difference relative to the largest magnitude of the reference."""
        return self.error / self.scale if self.scale else self.error

    def __str__(self) -> str:
        if not self.different:
            return f"all {self.elements:,} elements are equal"
        verdict = f"{self.different:,} of {self.elements:,} elements differ, by at most {self.error:.3g}"
        return f"{verdict} ({self.relative:.2g} of the largest; allowed {self.tolerance:.2g})"


def tolerance_of(dtype: DType) -> float:
    """Error relative to the largest result that two correct evaluations of a float program may have.

    Both compute the same operations in the same order; exp2, log2 and sin are a unit in the last place off, and a C
    compiler may fuse a product with a sum.  64 units in the last place for formats of 32 bits and more, 8 for shorter
    ones; 0 for integers.
    """
    if not dtype.is_float:
        return 0.0
    import ml_dtypes

    epsilon = float(ml_dtypes.finfo(dtype.numpy()).eps)
    return (64 if dtype.numpy().itemsize >= 4 else 8) * epsilon


def agreement(got: Array, reference: Array, dtype: DType, tolerance: float | None = None) -> Agreement:
    """Compare a result with its reference.

    Parameters
    ----------
    got, reference : ndarray
        Of the same shape; compared by value.
    dtype : DType
        Of the result.
    tolerance : float, optional
        Allowed error relative to the largest magnitude; `tolerance_of` the type unless given.

    Raises
    ------
    InputError
        For arrays of different shapes: nothing is broadcast.
    """
    got, reference = np.asarray(got), np.asarray(reference)
    if got.shape != reference.shape:
        raise InputError(
            f"a result of shape {got.shape} for a reference of shape {reference.shape}",
            hint="reshape one of them: nothing is broadcast",
        )
    allowed = (tolerance_of(dtype) if tolerance is None else tolerance) if dtype.is_float else 0.0
    if not dtype.is_float:
        return _integers(got.reshape(-1), reference.reshape(-1))
    a, b = got.astype(np.float64).reshape(-1), reference.astype(np.float64).reshape(-1)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", over="ignore"):
        error_of = np.where(same, 0.0, np.abs(a - b))
    error_of[np.isnan(error_of)] = np.inf
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max(initial=0.0))
    beyond = np.flatnonzero(error_of > allowed * scale)
    first = int(beyond[0]) if beyond.size else -1
    worst = float(error_of.max(initial=0.0))
    return Agreement(got.size, int((~same).sum()), worst, scale, allowed, first)


def _integers(got: Array, reference: Array) -> Agreement:
    wrong = np.flatnonzero(got != reference)
    error = max((abs(int(a) - int(b)) for a, b in zip(got[wrong], reference[wrong], strict=True)), default=0)
    scale = max(abs(int(reference.max())), abs(int(reference.min()))) if reference.size else 0
    first = int(wrong[0]) if wrong.size else -1
    return Agreement(got.size, wrong.size, float(error), float(scale), 0.0, first)
