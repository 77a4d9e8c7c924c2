"""Bit-exact comparison of results."""

from __future__ import annotations

import numpy as np

__all__ = ["same_bits"]


def same_bits(a: object, b: object) -> bool:
    """Whether two results have the same dtype, shape and bits; containers are compared item by item.

    Parameters
    ----------
    a, b : object
        Arrays, numbers, or dicts, lists and tuples of them.
    """
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_bits(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same_bits, a, b))
    x, y = np.asarray(a), np.asarray(b)
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
