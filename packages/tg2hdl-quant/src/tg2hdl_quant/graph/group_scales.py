"""Scales of groups of weights: a small integer for each group, times one scale for the row."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_quant.graph.builder import IntegerBuilder
from tg2hdl_quant.graph.scales import weight_scales
from tg2hdl_quant.graph.values import code_type

__all__ = ["LARGEST_FACTOR", "group_scales", "summed_by_group"]

Array = npt.NDArray[Any]

LARGEST_FACTOR = 15
"""Factor of the group of a row whose weights are largest: 4 bits for each group."""


def group_scales(
    weights: Array, axis: int, size: int, limit: int, power_of_two: bool, search: bool
) -> tuple[Array, Array]:
    """Scale of each row, and the factor of each weight's group.

    Parameters
    ----------
    weights : ndarray
    axis : int
        Axis that is summed, a multiple of `size` long.
    size : int
        Neighbours along the axis that have one scale.
    limit, power_of_two, search
        As for `weight_scales`; `power_of_two` concerns the scale of the row.

    Returns
    -------
    scale : ndarray
        With an axis of size 1 in place of `axis`.
    factors : ndarray of int
        1 to `LARGEST_FACTOR`, of the shape of the weights.
    """
    split = (*weights.shape[:axis], weights.shape[axis] // size, size, *weights.shape[axis + 1 :])
    steps = weight_scales(weights.reshape(split), (axis + 1,), limit, False, search)
    row = steps.max(axis, keepdims=True) / LARGEST_FACTOR
    if power_of_two:
        row = np.exp2(np.ceil(np.log2(row) - 1e-9))
    # Rounded up, so that no weight is clipped that its group's own scale would keep.
    factors = np.clip(np.ceil(steps / row - 1e-6), 1, LARGEST_FACTOR).astype(np.int64)
    whole = np.broadcast_to(factors, split).reshape(weights.shape)
    return row.squeeze(axis + 1), whole


def summed_by_group(
    builder: IntegerBuilder,
    product: int,
    shape: tuple[int, ...],
    axis: int,
    size: int,
    factors: Array,
    label: str,
) -> int:
    """Sum of products over an axis: that of each group, times its factor.

    Parameters
    ----------
    builder : IntegerBuilder
    product : int
        Number of the node; it broadcasts to `shape`.
    shape : tuple of int
    axis : int
        That is summed.
    size : int
        Products of a group; it divides the axis.
    factors : ndarray
        Of each product, equal in a group.
    label : str
        Name for messages.
    """
    dtype = builder.nodes[product].dtype
    split = (*shape[:axis], shape[axis] // size, size, *shape[axis + 1 :])
    parts = builder.add("reshape", (builder.spread(product, shape),), split, dtype)
    sums = builder.reduce("sum", parts, (axis + 1,), dtype, label)
    each = np.take(factors, range(0, shape[axis], size), axis)
    factor = builder.cast(builder.const(each, code_type(0, LARGEST_FACTOR)), dtype)
    return builder.reduce("sum", builder.elementwise("MUL", sums, factor, dtype=dtype), (axis,), dtype, label)
