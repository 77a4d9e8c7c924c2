"""Methods of quantization: ranges from values on samples, codes of weights, factors of channels.

Each method of calibration takes values (float64, one axis) and a width (bits), and returns the smallest and the largest
number that the quantized tensor tells apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["compensated", "cross_layer", "entropy", "minmax", "mse", "nearest", "percentile"]

Array = npt.NDArray[np.float64]
_SHARE = 0.9999
_BINS = 2048


def minmax(values: Array, bits: int) -> tuple[float, float]:
    """From the smallest to the largest value.

    Parameters
    ----------
    values : ndarray
        Flat, with the smallest and the largest.
    bits : int
        Of the codes.
    """
    return float(values.min()), float(values.max())


def percentile(values: Array, bits: int) -> tuple[float, float]:
    """The range that leaves out 0.005 % of the values at either end.

    Parameters
    ----------
    values : ndarray
        Flat, with the smallest and the largest.
    bits : int
        Of the codes.
    """
    tail = (1 - _SHARE) / 2
    low, high = np.quantile(values, (tail, 1 - tail))
    return float(min(low, 0.0)), float(max(high, 0.0))


def mse(values: Array, bits: int) -> tuple[float, float]:
    """The share of the whole range, of 60 from 0.2 to 1, whose squared error is the smallest.

    Parameters
    ----------
    values : ndarray
        Flat, with the smallest and the largest.
    bits : int
        Of the codes.
    """
    low, high = minmax(values, bits)
    signed = low < 0
    limit = (1 << (bits - signed)) - 1
    bound = max(abs(low), abs(high))
    if bound == 0:
        return low, high

    def error(share: float) -> float:
        step = bound * share / limit
        kept = np.clip(np.rint(values / step), -limit * signed, limit) * step
        return float(np.square(kept - values).mean())

    best = min(np.linspace(1.0, 0.2, 60), key=error)
    return max(low, -bound * float(best)), min(high, bound * float(best))


def entropy(values: Array, bits: int) -> tuple[float, float]:
    """The range whose quantized histogram diverges least from that of the values (Kullback-Leibler).

    Histogram of magnitudes with 2,048 bins; of two ranges that diverge equally the larger one.

    Parameters
    ----------
    values : ndarray
        Flat, with the smallest and the largest.
    bits : int
        Of the codes.
    """
    low, high = minmax(values, bits)
    bound = max(abs(low), abs(high))
    levels = 1 << (bits - 1)
    if bound == 0:
        return low, high
    counts = np.histogram(np.abs(values), _BINS, (0, bound))[0].astype(np.float64)
    # A rectifier's zeros say nothing about the range.
    counts[0] = counts[1]
    best, least = _BINS, np.inf
    for kept in range(_BINS, levels - 1, -16):
        divergence = _divergence(counts, kept, levels)
        if divergence < least:
            best, least = kept, divergence
    share = best / _BINS
    return max(low, -bound * share), min(high, bound * share)


def _divergence(counts: Array, kept: int, levels: int) -> float:
    reference = counts[:kept].copy()
    reference[-1] += counts[kept:].sum()
    group = np.minimum(np.arange(kept) * levels // kept, levels - 1)
    occupied = counts[:kept] > 0
    totals = np.bincount(group, counts[:kept], levels)
    members = np.bincount(group, occupied, levels)
    spread = np.where(occupied, totals[group] / np.maximum(members[group], 1), 0)
    p, q = reference / max(reference.sum(), 1), spread / max(spread.sum(), 1)
    seen: Any = p > 0
    return float((p[seen] * np.log(p[seen] / np.maximum(q[seen], 1e-12))).sum())


_DAMPING = 0.01
"""Share of the mean of the diagonal that is added to it, so that the inverse exists."""


def nearest(weights: Array, scale: Array, limit: int, inputs: Array) -> Array:
    """Each weight rounded by itself.

    Parameters
    ----------
    weights, scale, limit, inputs
        As of `QuantizerDef.round_weights`.
    """
    return np.asarray(np.clip(np.rint(weights / scale), -limit, limit))


def compensated(weights: Array, scale: Array, limit: int, inputs: Array) -> Array:
    """Weights rounded one after the other; those that follow take up the error that each makes in the sums.

    The second-order rule of Optimal Brain Quantization in the fixed order of GPTQ (Frantar et al., 2022): with H the
    second moments of the inputs, an error e of weight i is taken up by ``-e * U[i, j] / U[i, i]``, where U is the upper
    Cholesky factor of the inverse of H.

    Parameters
    ----------
    weights, scale, limit, inputs
        As of `QuantizerDef.round_weights`.
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
            step = scale[group, :, place if scale.shape[2] > 1 else 0]
            codes[group, :, place] = np.clip(np.rint(rest[:, place] / step), -limit, limit)
            error = (rest[:, place] - codes[group, :, place] * step) / upper[place, place]
            rest[:, place + 1 :] -= error[:, None] * upper[place, place + 1 :]
    return codes


def cross_layer(activations: Array, weights: Array) -> Array:
    """Factors with which a channel and the weights that read it have ranges that are as far from the largest.

    Cross-layer equalization (Nagel et al., 2019) with the ranges of activations on samples in place of those of the
    weights before them, which have a scale for each channel anyway.

    Parameters
    ----------
    activations : ndarray
        Largest magnitude of each channel on the samples.
    weights : ndarray
        Largest magnitude of the weights that read it.
    """
    used = (activations > 0) & (weights > 0)
    return np.sqrt(np.where(used, activations, 1.0) / np.where(used, weights, 1.0))
