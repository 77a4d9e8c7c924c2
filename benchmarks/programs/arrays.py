"""Weights and functions that the programs share, and the same functions of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tinygrad import Tensor, dtypes

__all__ = ["Both", "codes", "convolved", "narrow", "narrowed", "sigmoid", "weight"]

Both = tuple[Callable[..., Any], Callable[..., Any]]
"""A function of tensors, and the same of arrays."""


def weight(seed: int, *shape: int) -> np.ndarray:
    """Random floats of a normal distribution, which keep the magnitude of what they sum."""
    fan = np.prod(shape[1:]) if len(shape) > 1 else 1
    return (np.random.default_rng(seed).normal(size=shape) / np.sqrt(fan)).astype(np.float32)


def codes(seed: int, *shape: int) -> np.ndarray:
    """Random int8 codes."""
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Logistic function."""
    return 1 / (1 + np.exp(-x))


def convolved(x: np.ndarray, w: np.ndarray, stride: int = 1, padding: int = 0, groups: int = 1) -> np.ndarray:
    """Convolution of (batch, channels, height, width) in int64 or float64."""
    kind = np.float64 if x.dtype.kind == "f" else np.int64
    x = np.pad(x.astype(kind), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    high, wide = w.shape[2:]
    windows = np.lib.stride_tricks.sliding_window_view(x, (high, wide), (2, 3))[:, :, ::stride, ::stride]
    inputs, outputs = x.shape[1] // groups, w.shape[0] // groups
    parts = [
        np.einsum(
            "nchwij,ocij->nohw",
            windows[:, g * inputs : (g + 1) * inputs],
            w[g * outputs : (g + 1) * outputs].astype(kind),
        )
        for g in range(groups)
    ]
    return np.concatenate(parts, 1)


def narrow(sums: Tensor, shift: int) -> Tensor:
    """ReLU, and a shift to 7 bits."""
    return (sums.relu() >> shift).clip(0, 127).cast(dtypes.int8)


def narrowed(sums: np.ndarray, shift: int) -> np.ndarray:
    """`narrow` of arrays."""
    return np.clip(np.maximum(sums, 0) >> shift, 0, 127).astype(np.int8)
