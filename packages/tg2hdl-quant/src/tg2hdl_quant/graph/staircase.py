"""Narrow multipliers that round as a runtime does: the product with a float32, or codes that are known."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.tensors.narrow_multipliers import Staircase, fit_staircase

__all__ = ["fit_codes", "fit_products", "rounded_product"]

Array = npt.NDArray[Any]
_BITS = 26
"""Widest multiplier that is tried; float32 itself has 24."""


def rounded_product(total: Array, multiplier: Array, offset: float = 0.0) -> Array:
    """What ONNX Runtime computes of int32 sums, before it adds the zero point and clips."""
    products = total.astype(np.float32) * np.asarray(multiplier, np.float32)
    return np.asarray(np.rint(products + np.float32(offset)))


def fit_products(
    multipliers: Array,
    low: int,
    high: int,
    first: int,
    last: int,
    offset: float = 0.0,
    *,
    rounded: Callable[[Array, Any], Array] | None = None,
    slope: float = 1.0,
) -> Staircase | None:
    """The smallest shift for which all channels have a multiplier; None where a channel has none.

    Parameters
    ----------
    multipliers : ndarray of float32
        Positive, for each channel.
    low, high : int
        Bounds of the sums.
    first, last : int
        Results beyond them are clipped.
    offset : float
        Added before the rounding.
    rounded : callable, optional
        What is computed of sums and a multiplier, never falling with the sum; `rounded_product` unless given.
    slope : float
        How many codes a sum times its multiplier is.
    """
    one = rounded or partial(rounded_product, offset=offset)
    channels = np.unique(np.asarray(multipliers, np.float32).reshape(-1))

    def codes(rows: slice, sums: Array) -> Array:
        return np.stack([one(s, m) for s, m in zip(sums, channels[rows], strict=True)])

    least, most = (np.full(len(channels), bound, np.int64) for bound in (low, high))
    found = fit_staircase(codes, channels.astype(np.float64) * slope, least, most, first, last, bits=_BITS)
    return found and found.at(np.searchsorted(channels, np.asarray(multipliers, np.float32)))


def fit_codes(slopes: Array, codes: Array, low: int, first: int, last: int) -> Staircase | None:
    """The smallest shift for which all channels have a multiplier that gives known codes; None where one has none.

    Parameters
    ----------
    slopes : ndarray of float64
        Codes for each step of the operand, for each channel; negative where the codes fall.
    codes : ndarray of int64
        Channels by operands, from the operand `low` on; each channel rises or falls.
    first, last : int
        Smallest and largest code.
    """
    falls, high = slopes < 0, low + codes.shape[1] - 1
    ordered = np.where(falls[:, None], codes[:, ::-1], codes)
    if np.any(np.diff(ordered) < 0):
        return None
    least, most = np.where(falls, -high, low), np.where(falls, -low, high)

    def known(rows: slice, sums: Array) -> Array:
        return np.take_along_axis(ordered[rows], sums - least[rows, None], axis=1)

    found = fit_staircase(known, np.abs(slopes), least, most, first, last, bits=_BITS)
    signs = np.where(falls, -1, 1)
    return found and Staircase(found.factor * signs, found.below, found.above, found.shift)
