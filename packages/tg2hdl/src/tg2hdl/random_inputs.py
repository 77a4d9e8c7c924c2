"""Random inputs of a model, and random values of its variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from tg2hdl_backend import CapturedProgram, TensorSpec

__all__ = ["random_inputs", "random_values"]


def random_inputs(specs: Iterable[TensorSpec], seed: int) -> tuple[np.ndarray, ...]:
    """Random arrays: small floats, any bool, integers of the whole range.

    Parameters
    ----------
    specs : iterable of TensorSpec
        Shape and dtype of each input.
    seed : int
        Equal seeds give equal arrays.
    """
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


def random_values(captured: CapturedProgram, seed: int) -> Mapping[str, int]:
    """Random values of the run-time variables; with seed 0 those of the example.

    Parameters
    ----------
    captured : CapturedProgram
    seed : int
        0 gives the values of the example.
    """
    rng = np.random.default_rng(seed)
    drawn = {
        name: int(rng.integers(v.low, v.high, endpoint=True)) for name, v in captured.variables.items() if v
    }
    return captured.values(drawn if seed else {})
