"""The narrowest multiplier that rounds as a float32 product does, proven for every sum.

ONNX Runtime computes ``rint(float32(sum) * multiplier)``, clipped to a few hundred codes.  That is a staircase: for
each code the smallest sum that gives it.  ``(sum * M + c) >> n`` is the same staircase exactly when the line lies below
the code one sum before each step, and not below it at the step; so a few hundred comparisons prove it for all sums.
Ties that go to even, and products that float32 rounds to a tie, can make it impossible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.tensors.narrow_multipliers import roundest

__all__ = ["Staircase", "fit_codes", "fit_staircase", "rounded_product"]

Array = npt.NDArray[Any]
Rounded = Callable[[Array, Any], Array]
_WIDEST = 26
"""Widest multiplier that is tried (bits); float32 itself has 24."""


@dataclass(frozen=True, eq=False)
class Staircase:
    """``(sum * factor + added) >> shift``.

    Parameters
    ----------
    factor, added : ndarray of int64
        For each channel.
    shift : int
    """

    factor: npt.NDArray[np.int64]
    added: npt.NDArray[np.int64]
    shift: int


def rounded_product(total: Array, multiplier: Array, offset: float = 0.0) -> Array:
    """What ONNX Runtime computes of int32 sums, before it adds the zero point and clips."""
    products = total.astype(np.float32) * np.asarray(multiplier, np.float32)
    return np.asarray(np.rint(products + np.float32(offset)))


def fit_staircase(
    multipliers: Array,
    low: int,
    high: int,
    first: int,
    last: int,
    offset: float = 0.0,
    *,
    rounded: Rounded | None = None,
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
    if rounded is None:
        rounded = partial(rounded_product, offset=offset)
    channels = np.unique(np.asarray(multipliers, np.float32).reshape(-1))
    proofs = [_conditions(m, low, high, first, last, rounded) for m in channels]
    found = _fit_all([float(m) * slope for m in channels], proofs)
    if found is None:
        return None
    place = np.searchsorted(channels, np.asarray(multipliers, np.float32))
    return Staircase(found.factor[place], found.added[place], found.shift)


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
    high = low + codes.shape[1] - 1
    proofs, signs = [], np.where(slopes < 0, -1, 1)
    for row, sign in zip(codes, signs, strict=True):
        ordered = row[::sign]
        if np.any(np.diff(ordered) < 0):
            return None
        least, most = (low, high) if sign > 0 else (-high, -low)

        def known(sums: Array, start: Any, ordered: Array = ordered) -> Array:
            return np.asarray(ordered[np.minimum(sums - start, len(ordered) - 1)])

        proofs.append(_conditions(least, least, most, first, last, known))
    found = _fit_all([float(abs(s)) for s in slopes], proofs)
    return None if found is None else Staircase(found.factor * signs, found.added, found.shift)


def _fit_all(slopes: Sequence[float], proofs: Sequence[_Conditions]) -> Staircase | None:
    """Multiplier and constant of each channel at the smallest shift that suits all."""
    widest = min(_WIDEST - int(np.floor(np.log2(max(slopes)))), 46)
    shift = 0
    while True:
        # A finer shift keeps what a coarser one allows, so one pass over the channels almost always does.
        start = shift
        for slope, proof in zip(slopes, proofs, strict=True):
            while shift <= widest and _fit(slope, proof, shift) is None:
                shift += 1
        if shift > widest:
            return None
        if shift == start:
            break
    pairs = [_fit(slope, proof, shift) for slope, proof in zip(slopes, proofs, strict=True)]
    factors, added = (np.array([p[n] for p in pairs if p is not None], np.int64) for n in (0, 1))
    return Staircase(factors, added, shift)


@dataclass(frozen=True, eq=False)
class _Conditions:
    """Sums that must reach a code, and sums that must stay below one."""

    reach: tuple[Array, Array]
    stay: tuple[Array, Array]


def _conditions(multiplier: Any, low: int, high: int, first: int, last: int, rounded: Rounded) -> _Conditions:
    codes = np.arange(first + 1, last + 1)
    below = np.full(len(codes), low, np.int64)
    above = np.full(len(codes), high + 1, np.int64)
    while np.any(below < above):
        middle = (below + above) // 2
        reached = rounded(middle, multiplier) >= codes
        above = np.where(reached, middle, above)
        below = np.where(reached, below, middle + 1)
    inside = (above > low) & (above <= high)
    reach, stay = (above[inside], codes[inside]), (above[inside] - 1, codes[inside])
    ends = rounded(np.array([low, high]), multiplier)
    if ends[0] > first:
        reach = (np.append(reach[0], low), np.append(reach[1], min(int(ends[0]), last)))
    if ends[1] < last:
        stay = (np.append(stay[0], high), np.append(stay[1], max(int(ends[1]), first) + 1))
    return _Conditions(reach, stay)


def _fit(multiplier: float, proof: _Conditions, shift: int) -> tuple[int, int] | None:
    """Multiplier and constant of a channel at a shift."""
    exact = multiplier * 2.0**shift
    largest = max(int(np.abs(sums).max(initial=0)) for sums, _ in (proof.reach, proof.stay)) + 1
    for factor in sorted({int(np.floor(exact)) + d for d in (-1, 0, 1, 2)}, key=lambda f: abs(f - exact)):
        if factor <= 0 or factor * largest >= 1 << 61:
            continue
        (reached, codes), (stayed, limits) = proof.reach, proof.stay
        least = int(((codes << shift) - reached * factor).max(initial=-(1 << 62)))
        most = int(((limits << shift) - stayed * factor).min(initial=1 << 62)) - 1
        if least <= most:
            return factor, roundest(least, most)
    return None
