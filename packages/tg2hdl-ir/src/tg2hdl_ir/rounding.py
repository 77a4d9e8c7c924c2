"""Rounding of arrays to a float format, once and to nearest even, with one NaN pattern."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["FloatFormat", "canonical_nan", "canonicalize_nan", "round_to_format", "widen"]

Array = npt.NDArray[Any]


class FloatFormat(Hashable, Protocol):
    """The properties of a float type that rounding uses, such as a `DType`."""

    @property
    def name(self) -> str:
        """Name of the format."""

    @property
    def bit_width(self) -> int:
        """Storage width (bits)."""

    @property
    def exponent_bits(self) -> int:
        """Width of the exponent field (bits)."""

    @property
    def fraction_bits(self) -> int:
        """Width of the fraction field (bits)."""

    @property
    def finite(self) -> bool:
        """Whether the format has no infinities."""

    def numpy(self) -> np.dtype[Any]:
        """Numpy type that stores the format."""


@cache
def canonical_nan(dtype: FloatFormat) -> Array:
    """Quiet NaN that every arithmetic unit returns: positive, only the top fraction bit set.

    The finite FP8 E4M3 has a single NaN, all ones.
    """
    exponent = ((1 << dtype.exponent_bits) - 1) << dtype.fraction_bits
    fraction = (1 << dtype.fraction_bits) - 1 if dtype.finite else 1 << (dtype.fraction_bits - 1)
    return np.array(exponent | fraction, dtype=f"uint{dtype.bit_width}").view(dtype.numpy())


def canonicalize_nan(array: Array, dtype: FloatFormat) -> Array:
    """Replace every NaN of an array of `dtype` by the canonical one.

    Parameters
    ----------
    array : ndarray
        Of any shape, in the numpy type of `dtype`.
    dtype : FloatFormat
    """
    nan = np.isnan(array)
    return np.where(nan, canonical_nan(dtype), array) if nan.any() else array


def widen(array: Array, dtype: FloatFormat) -> Array:
    """Exact copy in the type that arithmetic on `dtype` is done in: float32 below 32 bits, else the type itself.

    float32 has more than twice the precision of the narrow formats plus two bits, so that rounding the float32 result
    of one add, subtract, multiply, divide or square root again gives the correctly rounded narrow result.

    Parameters
    ----------
    array : ndarray
        Of any shape, in the numpy type of `dtype`.
    dtype : FloatFormat
        Format of the elements.
    """
    return array if dtype.bit_width >= 32 else array.astype(np.float32)


def round_to_format(array: Array, dtype: FloatFormat) -> Array:
    """Round float32 or float64 values to `dtype`, to nearest even in one step.

    FP8 saturates finite values at its largest number; an infinity becomes NaN in E4M3, which has none.

    Parameters
    ----------
    array : Array
        Of float32 or float64.
    dtype : FloatFormat
        A float type of at most its width.
    """
    if dtype.bit_width >= 32:
        return canonicalize_nan(array.astype(dtype.numpy(), copy=False), dtype)
    if dtype.name == "fp16":
        return canonicalize_nan(array.astype(np.float16), dtype)
    single = _round_to_odd(array)
    rounded = single.astype(dtype.numpy())
    if dtype.bit_width == 8:
        largest = _largest(dtype)
        beyond = np.isfinite(single) & (np.abs(single) > np.float32(largest))
        if beyond.any():
            rounded = np.where(beyond, np.copysign(largest, single).astype(dtype.numpy()), rounded)
    return canonicalize_nan(rounded, dtype)


def _round_to_odd(array: Array) -> Array:
    """float64 to float32 with a sticky last bit, so that a second rounding to fewer bits is the only one."""
    if array.dtype != np.float64:
        return array
    single = np.asarray(array.astype(np.float32))
    back = single.astype(np.float64)
    inexact = (back != array) & ~np.isnan(array)
    if not inexact.any():
        return single
    bits = single.view(np.uint32)
    toward_zero = bits - (np.abs(back) > np.abs(array)).astype(np.uint32)
    return np.where(inexact, toward_zero | np.uint32(1), bits).view(np.float32)


@cache
def _largest(dtype: FloatFormat) -> np.float32:
    bits = (((1 << dtype.exponent_bits) - 1) << dtype.fraction_bits) - 1
    if dtype.finite:
        bits = (1 << (dtype.bit_width - 1)) - 2
    return np.float32(np.array(bits, dtype=np.uint8).view(dtype.numpy()).astype(np.float32))
