"""The elementary functions in other arithmetic: in double precision, and by mpmath."""

__all__ = ["IN_DOUBLE_PRECISION", "by_mpmath"]

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

IN_DOUBLE_PRECISION: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(10.0, x),
    "ln": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "tanh": np.tanh,
    "sigmoid": lambda x: np.where(x >= 0, 1, np.exp(-np.abs(x))) / (1 + np.exp(-np.abs(x))),
    "erf": np.vectorize(math.erf, otypes=[float]),
    "atan": np.arctan,
    "cos": np.cos,
    "hypot": np.hypot,
    "atan2": np.arctan2,
    "pow": np.power,
}
"""Functions of arrays, by operation."""


def by_mpmath() -> dict[str, Callable[..., Any]]:
    """Functions of numbers with the precision of mpmath, by operation; needs mpmath."""
    mpmath: Any = import_module("mpmath")
    return {
        "exp": mpmath.exp,
        "exp2": lambda x: mpmath.power(2, x),
        "exp10": lambda x: mpmath.power(10, x),
        "ln": mpmath.log,
        "log2": lambda x: mpmath.log(x, 2),
        "log10": mpmath.log10,
        "tanh": mpmath.tanh,
        "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
        "erf": mpmath.erf,
        "atan": mpmath.atan,
        "hypot": mpmath.hypot,
        "atan2": mpmath.atan2,
        "pow": mpmath.power,
    }
