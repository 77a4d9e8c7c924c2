"""Symmetric quantization of one tensor with one scale."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import InputError

__all__ = ["dequantize", "finite_floats", "quantize_int8", "quantize_int16", "quantize_symmetric"]


def quantize_symmetric(arr: npt.ArrayLike, bits: int) -> tuple[npt.NDArray[np.signedinteger], np.float32]:
    """Quantize to `bits`-bit integers: ``round(x / scale)`` with ``scale = max|x| / (2^(bits-1) - 1)``.

    Parameters
    ----------
    arr : array_like of float
        Any shape, at least one element, all finite.
    bits : {8, 16}
        Width of the result (bits).

    Returns
    -------
    integers : ndarray of int8 or int16
        Same shape, within ``+-(2^(bits-1) - 1)``: the most negative code is not used.
    scale : float32
        Value of one step; 1.0 when all elements are zero.

    Raises
    ------
    InputError
        For an empty array, NaN or infinity, or a dtype that is not real.
    """
    values = finite_floats(arr, "quantize")
    limit = (1 << (bits - 1)) - 1
    scale = np.float32(np.abs(values).max() / limit)
    if scale == 0:
        # All elements are zero, or so small that a float32 cannot hold the step.
        return np.zeros(values.shape, dtype=f"int{bits}"), np.float32(1.0)
    integers = np.clip(np.rint(values / np.float64(scale)), -limit, limit)
    return integers.astype(f"int{bits}"), scale


def quantize_int8(arr: npt.ArrayLike) -> tuple[npt.NDArray[np.signedinteger], np.float32]:
    """Quantize to int8 with one scale ``max|x| / 127``; see `quantize_symmetric`."""
    return quantize_symmetric(arr, 8)


def quantize_int16(arr: npt.ArrayLike) -> tuple[npt.NDArray[np.signedinteger], np.float32]:
    """Quantize to int16 with one scale ``max|x| / 32767``; see `quantize_symmetric`."""
    return quantize_symmetric(arr, 16)


def dequantize(arr: npt.ArrayLike, scale: float | np.floating) -> npt.NDArray[np.float32]:
    """Values of quantized integers: ``arr * scale`` as float32.

    Parameters
    ----------
    arr : array_like of integers
        Of any shape.
    scale : float
        Value of one step.

    Raises
    ------
    InputError
        For a scale that is not a positive finite number, or an array that is not of integers.
    """
    integers = np.asarray(arr)
    if integers.dtype.kind not in "iu":
        raise InputError(
            f"dequantize expects integers, got an array of {integers.dtype}",
            hint="pass the first result of quantize_int8 or quantize_int16",
        )
    if not (np.isfinite(scale) and scale > 0):
        raise InputError(
            f"scale {float(scale)} is not a positive finite number",
            hint="pass the second result of quantize_int8 or quantize_int16",
        )
    return (integers.astype(np.float64) * np.float64(scale)).astype(np.float32)


def finite_floats(arr: npt.ArrayLike, what: str) -> npt.NDArray[np.float64]:
    """Return the array as float64, or refuse it.

    Parameters
    ----------
    arr : array_like
        Of any shape.
    what : str
        Name of the function, for the error.

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
