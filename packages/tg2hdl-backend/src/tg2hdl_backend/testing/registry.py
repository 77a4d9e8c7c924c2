"""Registry of the programs that must run, and their inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor

__all__ = ["EXTREMES", "PROGRAMS", "SPECIAL", "Program", "add", "f32", "i8", "i32", "training"]

Array = npt.NDArray[Any]


def training() -> Any:
    """Context in which tinygrad trains."""
    from tinygrad import helpers

    return Tensor.train() if hasattr(Tensor, "train") else helpers.Context(TRAINING=1)


def f32(*shape: int) -> Array:
    """Normally distributed numbers, the same at each call."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def i32(*shape: int, low: int = -50, high: int = 50) -> Array:
    """Small integers, the same at each call.

    Parameters
    ----------
    *shape : int
        Of the array.
    low : int, default -50
        Smallest number, and that after the largest.
    high : int, default 50
        Smallest number, and that after the largest.
    """
    return np.random.default_rng(sum(shape) + 1).integers(low, high, shape, np.int32)


def i8(*shape: int) -> Array:
    """All int8 values, the same at each call."""
    return np.random.default_rng(sum(shape) + 2).integers(-128, 128, shape, np.int8)


SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3.4e38, 0.5, 2.5, -2.5, 1e-3], np.float32
)
EXTREMES = np.array([0, 1, -1, 2**31 - 1, -(2**31), 7, -7, 40, -40, 31, 32, 33], np.int32)

Program = tuple[Callable[..., Any], tuple[Any, ...]]
PROGRAMS: dict[str, Program] = {}


def add(name: str, model: Callable[..., Any], *inputs: Any) -> None:
    """Register a program.

    Parameters
    ----------
    name : str
        Unique.
    model : callable
        Function of tensors.
    *inputs
        Example inputs.
    """
    assert name not in PROGRAMS
    PROGRAMS[name] = (model, inputs)
