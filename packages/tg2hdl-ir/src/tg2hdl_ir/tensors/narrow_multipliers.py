"""Narrow multipliers, a constant and a shift that give known codes, proven by comparing all of them."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

__all__ = ["fit_plane", "roundest"]

Array = npt.NDArray[Any]
_FAR = 1 << 60


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
    for shift in range(4, 31):
        first, second = (max(round(abs(r) * 2.0**shift), 1) * (1 if r > 0 else -1) for r in ratios)
        sums = a * first + b * second
        least = int(((codes << shift) - sums)[codes > low].max(initial=-_FAR))
        most = int((((codes + 1) << shift) - sums)[codes < high].min(initial=_FAR)) - 1
        if least <= most:
            return (first, second), roundest(least, most), shift
    return None


def roundest(least: int, most: int) -> int:
    """The number between two with the most zeros at its end."""
    for zeros in range(62, -1, -1):
        number = -(-least >> zeros) << zeros
        if number <= most:
            return number
    return least
