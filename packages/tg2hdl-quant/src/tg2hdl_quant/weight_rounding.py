"""Codes of weights chosen so that the sums of a layer change least on samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["compensated", "nearest"]

Array = npt.NDArray[Any]
_DAMPING = 0.01
"""Share of the mean of the diagonal that is added to it, so that the inverse exists."""


def nearest(weights: Array, scale: Array, limit: int, inputs: Array) -> Array:
    """Each weight rounded by itself."""
    return np.asarray(np.clip(np.rint(weights / scale), -limit, limit))


def compensated(weights: Array, scale: Array, limit: int, inputs: Array) -> Array:
    """Weights rounded one after the other; those that follow take up the error that each makes in the sums.

    The second-order rule of Optimal Brain Quantization in the fixed order of GPTQ (Frantar et al., 2022): with H the
    second moments of the inputs, an error e of weight i is taken up by ``-e * U[i, j] / U[i, i]``, where U is the upper
    Cholesky factor of the inverse of H.
    """
    codes = np.empty(weights.shape)
    for group in range(len(weights)):
        rest = weights[group].astype(np.float64)
        x = inputs[group].astype(np.float64)
        moments = x.T @ x / len(x)
        diagonal = np.diagonal(moments)
        # Inputs that never occur say nothing about their weights.
        moments += np.diag(np.where(diagonal > 0, _DAMPING * diagonal.mean(), 1.0))
        upper = np.linalg.cholesky(np.linalg.inv(moments)).T
        for place in range(rest.shape[1]):
            step = scale[group, :, 0]
            codes[group, :, place] = np.clip(np.rint(rest[:, place] / step), -limit, limit)
            error = (rest[:, place] - codes[group, :, place] * step) / upper[place, place]
            rest[:, place + 1 :] -= error[:, None] * upper[place, place + 1 :]
    return codes
