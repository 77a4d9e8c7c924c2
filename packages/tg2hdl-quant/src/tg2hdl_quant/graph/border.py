"""Float inputs of a model to integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.errors import InputError
from tg2hdl_ir.tensors import TensorGraph
from tg2hdl_quant.graph.values import Value

__all__ = ["quantize_border"]

Array = npt.NDArray[Any]


def quantize_border(graph: TensorGraph, value: Value, number: int, x: npt.ArrayLike) -> Array:
    """Integers of float inputs: divided in float32, rounded half to even; integers of the input's type as they are.

    Raises
    ------
    InputError
        For elements that are not finite.
    """
    array = np.asarray(x)
    dtype = graph.nodes[value.node].dtype.numpy()
    if array.dtype == dtype:
        return array
    if graph.nodes[value.node].dtype.is_float:
        return array.astype(dtype)
    if array.dtype.kind != "f":
        if graph.nodes[value.node].dtype.is_int and value.scale.size == 1 and value.scale == 1.0:
            return array.astype(dtype)
        array = array.astype(np.float64)
    if not np.all(np.isfinite(array)):
        raise InputError(f"input {graph.input_names[number]!r} has NaN or infinite elements")
    if np.any(value.offset):
        steps = np.rint((array - value.offset) / value.scale)
    else:
        steps = np.rint(array.astype(np.float32) / value.scale.astype(np.float32)).astype(np.float64)
    return np.asarray(np.clip(steps + value.zero, value.low, value.high), dtype)
