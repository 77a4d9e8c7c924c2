"""Narrow multipliers, a constant and a shift that give known codes, proven for every operand.

Requantizing is a staircase: for each code the smallest sum that gives it.  ``(sum * M + c) >> n`` is the same staircase
if it has the right code on both sides of each step, because it never falls; so a few hundred comparisons prove it for
all sums.  Ties that go to even, and products that float32 rounds to a tie, can make it impossible.  A rounding that is
odd, such as halves away from zero, may need one c for sums below zero and one for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Staircase", "fit_plane", "fit_staircase"]

Array = npt.NDArray[Any]
_FAR = 1 << 61
_MOST_SHIFT = 46
_SINGLE = 2
"""Further bits of the multiplier that are spent to need one constant only."""
_TOGETHER = 1 << 12
"""Codes of several channels that are compared at once."""


@dataclass(frozen=True, eq=False)
class Staircase:
    """``(sum * factor + (below if sum < 0 else above)) >> shift``, per channel.

    Parameters
    ----------
    factor, below, above : ndarray of int64
    shift : int
    """

    factor: npt.NDArray[np.int64]
    below: npt.NDArray[np.int64]
    above: npt.NDArray[np.int64]
    shift: int

    @property
    def is_single(self) -> bool:
        """Whether the sign does not matter."""
        return bool(np.array_equal(self.below, self.above))

    def at(self, place: Array) -> Staircase:
        """The channels at indices, in the shape of the indices."""
        return Staircase(self.factor[place], self.below[place], self.above[place], self.shift)


def fit_staircase(
    code: Callable[[slice, Array], Array],
    slopes: Array,
    first: Array,
    last: Array,
    low: int,
    high: int,
    *,
    by_sign: bool = False,
    bits: int = 64,
) -> Staircase | None:
    """The smallest shift for which all channels have a multiplier; None where there is none.

    Parameters
    ----------
    code : callable
        ``(channels, sums) -> codes`` for a slice of the channels, both of the shape (channels, any); never falling
        with the sum.
    slopes : ndarray of float64
        About how many codes a sum is, per channel; not negative.
    first, last : ndarray of int64
        Bounds of the sums, per channel.
    low, high : int
        Results beyond them are clipped.
    by_sign : bool
        Whether there may be another constant for sums below zero; one for all is preferred, up to 2 bits more.
    bits : int
        Widest multiplier (bits).
    """
    ends = np.clip(code(slice(None), np.stack([first, last], -1)), low, high).astype(np.int64)
    slopes = np.where(ends[:, 0] == ends[:, 1], 0.0, slopes)
    step = max(1, _TOGETHER // (high - low + 1))
    blocks = []
    for start in range(0, len(slopes), step):
        rows = slice(start, start + step)
        blocks.append((slopes[rows], *_points(partial(code, rows), first[rows], last[rows], low, high)))
    largest = float(slopes.max(initial=0.0)) or 1.0
    two = None
    for shift in range(min(bits - int(np.floor(np.log2(largest))), _MOST_SHIFT) + 1):
        if two is not None and shift > two.shift + _SINGLE:
            break
        found = []
        for block in blocks:
            fitted = _at(shift, *block, low, high, by_sign)
            if fitted is None:
                break
            found.append(fitted)
        else:
            factor, below, above = np.concatenate(found, -1)
            made = Staircase(factor, below, above, shift)
            if made.is_single:
                return made
            two = two or made
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
    return sums, np.clip(code(sums), low, high).astype(np.int64)


def _at(
    shift: int, slopes: Array, sums: Array, codes: Array, low: int, high: int, by_sign: bool
) -> Array | None:
    """Factors, and constants below and from zero on, at a shift; None where a channel has none."""
    exact = slopes * 2.0**shift
    if np.any((exact + 2) * np.abs(sums).max(-1) >= float(_FAR)):
        return None
    constant = slopes == 0
    found = np.zeros((3, len(slopes)), np.int64)
    found[1:, constant] = codes[constant, 0] << shift
    single, done = constant.copy(), constant.copy()
    base = np.floor(exact).astype(np.int64)
    upper = exact - base > 0.5
    sides = (sums < 0, sums >= 0)
    for down, up in ((0, 1), (1, 0), (-1, 2), (2, -1)):  # The nearest factor first.
        trial = np.where(constant, 0, base + np.where(upper, up, down))
        product = sums * trial[:, None]
        # A clipped code may be passed.
        least = np.where(codes > low, (codes << shift) - product, -_FAR)
        most = np.where(codes < high, ((codes + 1) << shift) - product - 1, _FAR)
        both = least.max(-1), most.min(-1)
        alone = fits = (trial > 0) & (both[0] <= both[1])
        limits = [both, both]
        if by_sign:
            limits = [(np.where(s, least, -_FAR).max(-1), np.where(s, most, _FAR).min(-1)) for s in sides]
            fits = (trial > 0) & (limits[0][0] <= limits[0][1]) & (limits[1][0] <= limits[1][1])
        for channel in np.flatnonzero((alone & ~single) | (fits & ~done)):
            chosen = (both, both) if alone[channel] else limits
            found[0, channel] = trial[channel]
            found[1:, channel] = [_roundest(int(b[channel]), int(m[channel])) for b, m in chosen]
        single |= alone
        done |= fits
        if np.all(single):
            return found
    return found if np.all(done) else None


def fit_plane(
    a: Array, b: Array, codes: Array, ratios: tuple[float, float], low: int, high: int
) -> tuple[tuple[int, int], int, int] | None:
    """Factors, constant and shift with ``(a * f + b * g + constant) >> shift`` equal to known codes; None without.

    Parameters
    ----------
    a, b : ndarray of int64
        All values of two operands; they broadcast to the shape of the codes.
    codes : ndarray of int64
        The code of each pair.
    ratios : (float, float)
        About how many codes a step of each operand is, not 0.
    low, high : int
        Results beyond them are clipped.
    """
    far = 1 << 60
    for shift in range(4, 31):
        first, second = (max(round(abs(r) * 2.0**shift), 1) * (1 if r > 0 else -1) for r in ratios)
        sums = a * first + b * second
        least = int(((codes << shift) - sums)[codes > low].max(initial=-far))
        most = int((((codes + 1) << shift) - sums)[codes < high].min(initial=far)) - 1
        if least <= most:
            return (first, second), _roundest(least, most), shift
    return None


def _roundest(least: int, most: int) -> int:
    """The number between two with the most zeros at its end."""
    for zeros in range(62, -1, -1):
        number = -(-least >> zeros) << zeros
        if number <= most:
            return number
    return least
