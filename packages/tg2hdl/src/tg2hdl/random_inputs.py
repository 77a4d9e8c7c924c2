"""Random inputs of a model."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tg2hdl_backend import TensorSpec

__all__ = ["random_inputs"]


def random_inputs(specs: Iterable[TensorSpec], seed: int) -> tuple[np.ndarray, ...]:
    """Random arrays: small floats, any bool, integers of the whole range."""
    rng = np.random.default_rng(seed)
    arrays = []
    for spec in specs:
        dtype = spec.dtype
        if dtype.is_float:
            arrays.append(rng.normal(size=spec.shape).astype(dtype.numpy()))
        elif dtype.is_bool:
            arrays.append(rng.integers(0, 2, spec.shape).astype(bool))
        else:
            low, high = dtype.min_value, dtype.max_value
            arrays.append(rng.integers(low, high, spec.shape, dtype.numpy(), endpoint=True))
    return tuple(arrays)
