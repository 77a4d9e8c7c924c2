"""The narrowest multiplier that gives known codes for every sum, proven.

Requantizing is a staircase: for each code the smallest sum that gives it.  ``(sum * M + c) >> n`` is the same staircase
if it has the right code on both sides of each step, because it never falls.  TFLM rounds halves away from zero, which
is odd; so there may be one c for sums below zero and one for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.tensors.narrow_multipliers import roundest

__all__ = ["Staircase", "fit"]

Array = npt.NDArray[Any]
_FAR = 1 << 61
_MOST_SHIFT = 46
_SINGLE = 2
"""Further bits of the multiplier that are spent to need one constant only."""


@dataclass(frozen=True, eq=False)
class Staircase:
    """``(sum * factor + (below if sum < 0 else above)) >> shift``, per channel.

    Parameters
    ----------
    factor, below, above : ndarray of int64
    shift : int
    """

    factor: Array
    below: Array
    above: Array
    shift: int

    @property
    def is_single(self) -> bool:
        """Whether the sign does not matter."""
        return bool(np.array_equal(self.below, self.above))


def fit(
    code: Callable[[Array], Array], slopes: Array, first: Array, last: Array, low: int, high: int
) -> Staircase | None:
    """The smallest shift for which all channels have a multiplier; None where there is none.

    Parameters
    ----------
    code : callable
        Codes of sums of the shape (channels, any), within `low` and `high`, never falling with the sum.
    slopes : ndarray of float64
        About how many codes a sum is, per channel.
    first, last : ndarray of int64
        Bounds of the sums, per channel.
    low, high : int
        Results beyond them are clipped.
    """
    sums, codes = _points(code, first, last, low, high)
    ends = code(np.stack([first, last], -1))
    constant = ends[:, 0] == ends[:, 1]
    slopes = np.where(constant, 0.0, slopes)
    two = None
    for shift in range(_MOST_SHIFT + 1):
        if two is not None and shift > two.shift + _SINGLE:
            break
        found = _at(shift, slopes, constant, ends[:, 0], sums, codes, low, high)
        if found is None:
            continue
        if found.is_single:
            return found
        two = two or found
    return two


def _points(
    code: Callable[[Array], Array], first: Array, last: Array, low: int, high: int
) -> tuple[Array, Array]:
    """Sums on both sides of each step, of each end and of zero, and their codes."""
    wanted = np.arange(low + 1, high + 1)
    below = np.broadcast_to(first[:, None], (len(first), len(wanted))).copy()
    above = np.broadcast_to(last[:, None] + 1, below.shape).copy()
    while np.any(below < above):
        middle = (below + above) >> 1
        reached = code(np.minimum(middle, last[:, None])) >= wanted
        above = np.where(reached, middle, above)
        below = np.where(reached, below, middle + 1)
    ends = np.stack([first, last, np.full_like(first, -1), np.zeros_like(first)], -1)
    sums = np.concatenate([above, above - 1, ends], -1)
    sums = np.clip(sums, first[:, None], last[:, None])
    return sums, code(sums)


def _at(
    shift: int,
    slopes: Array,
    constant: Array,
    only: Array,
    sums: Array,
    codes: Array,
    low: int,
    high: int,
) -> Staircase | None:
    """Multipliers and constants at a shift."""
    exact = slopes * 2.0**shift
    largest = np.abs(sums).max(-1)
    if np.any(exact * largest >= float(_FAR)):
        return None
    factor, below, above = (np.zeros(len(slopes), np.int64) for _ in range(3))
    single, done = (np.zeros(len(slopes), bool) for _ in range(2))
    above[constant] = below[constant] = only[constant] << shift
    done |= constant
    single |= constant
    negative = sums < 0
    for step in (0, 1, -1, 2):
        trial = np.where(constant, 0, np.floor(exact).astype(np.int64) + step)
        product = sums * trial[:, None]
        # A clipped code may be passed.
        least = np.where(codes > low, (codes << shift) - product, -_FAR)
        most = np.where(codes < high, ((codes + 1) << shift) - product - 1, _FAR)
        limits = []
        for side in (negative, ~negative):
            limits.append((np.where(side, least, -_FAR).max(-1), np.where(side, most, _FAR).min(-1)))
        fits = (trial > 0) & (limits[0][0] <= limits[0][1]) & (limits[1][0] <= limits[1][1])
        both = np.maximum(limits[0][0], limits[1][0]), np.minimum(limits[0][1], limits[1][1])
        alone = fits & (both[0] <= both[1])
        take = (alone & ~single) | (fits & ~done)
        for channel in np.flatnonzero(take):
            factor[channel] = trial[channel]
            if alone[channel]:
                below[channel] = above[channel] = roundest(int(both[0][channel]), int(both[1][channel]))
            else:
                below[channel], above[channel] = (
                    roundest(int(b[channel]), int(m[channel])) for b, m in limits
                )
        single |= alone
        done |= fits
    return Staircase(factor, below, above, shift) if np.all(done) else None
