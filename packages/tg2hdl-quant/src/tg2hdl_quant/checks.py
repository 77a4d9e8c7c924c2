"""Checks that all quantizers share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.errors import InputError

__all__ = ["finite_floats"]


def finite_floats(arr: npt.ArrayLike, what: str) -> npt.NDArray[np.float64]:
    """Return the array as float64, or refuse it.

    Raises
    ------
    InputError
        When it is empty, not of real numbers, or has a NaN or an infinity; the first bad index is named.
    """
    values = np.asarray(arr)
    if values.dtype.kind not in "fiub" and not np.issubdtype(values.dtype, np.floating):
        raise InputError(
            f"{what} expects real numbers, got an array of {values.dtype}", hint="convert it to float32"
        )
    if values.size == 0:
        raise InputError(
            f"{what} got an empty array of shape {values.shape}",
            hint="a scale needs at least one element",
        )
    floats = values.astype(np.float64)
    bad = ~np.isfinite(floats)
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        kind = "NaN" if np.isnan(floats[index]) else "an infinity"
        raise InputError(
            f"{what} got {kind} at index {index}",
            notes=(f"{int(bad.sum())} of {bad.size} elements are not finite",),
            hint="clip or replace them first, e.g. with numpy.nan_to_num",
        )
    return floats
