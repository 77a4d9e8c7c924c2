"""Factors of the channels between two layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["cross_layer"]

Array = npt.NDArray[Any]


def cross_layer(activations: Array, weights: Array) -> Array:
    """Factors with which a channel and the weights that read it have ranges that are as far from the largest.

    Cross-layer equalization (Nagel et al., 2019) with the ranges of activations on samples in place of those of the
    weights before them, which have a scale for each channel anyway.
    """
    used = (activations > 0) & (weights > 0)
    return np.sqrt(np.where(used, activations, 1.0) / np.where(used, weights, 1.0))
