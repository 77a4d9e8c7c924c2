"""Scales of activations and weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["activation_scale", "weight_scales"]

Array = npt.NDArray[Any]


def activation_scale(values: Array, bound: float, limit: int, low: int, power_of_two: bool) -> float:
    """Value of a step so that `limit` steps reach `bound`; of two powers of two the one that errs less."""
    if not bound > 0:
        return 1.0
    # Scales are float32, so that a file with them says the same.
    scale = float(np.float32(max(bound / limit, 2.0**-60)))
    if not power_of_two:
        return scale
    exponent = int(np.ceil(np.log2(scale) - 1e-9))
    return min(
        (2.0**exponent, 2.0 ** (exponent - 1)),
        key=lambda s: float(np.square(np.clip(np.rint(values / s), low, limit) * s - values).mean()),
    )


def weight_scales(
    weights: Array, axes: tuple[int, ...], limit: int, power_of_two: bool, search: bool
) -> Array:
    """Scale of each channel: axes are those over which a channel extends.

    Parameters
    ----------
    search : bool
        Clip the largest weights where that makes the squared error smaller.
    """
    largest = np.abs(weights).max(axes, keepdims=True).astype(np.float64)
    base = np.where(largest > 0, largest / limit, 1.0)
    if power_of_two:
        exponent = np.ceil(np.log2(base) - 1e-9)
        candidates = [np.exp2(exponent - k) for k in range(3 if search else 2)]
    else:
        factors = np.linspace(1.0, 0.4, 25) if search else (1.0,)
        candidates = [(base * f).astype(np.float32).astype(np.float64) for f in factors]
    return _best(weights, candidates, axes, limit)


def _best(weights: Array, candidates: list[Array], axes: tuple[int, ...], limit: int) -> Array:
    error: Callable[[Array], Array] = lambda s: np.square(  # noqa: E731
        np.clip(np.rint(weights / s), -limit, limit) * s - weights
    ).sum(axes, keepdims=True)
    best, least = candidates[0], error(candidates[0])
    for scale in candidates[1:]:
        errs = error(scale)
        best, least = np.where(errs < least, scale, best), np.minimum(errs, least)
    return best
