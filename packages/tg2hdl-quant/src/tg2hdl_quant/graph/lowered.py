"""The result of lowering a float graph: an integer graph, and the integers that are floats or cross its borders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import InputError
from tg2hdl_ir.errors import model_place
from tg2hdl_ir.tensors import GraphBuilder, TensorGraph
from tg2hdl_quant.graph.values import IntegerValue

__all__ = ["Lowered", "StoredTensor", "WeightTensor", "quantize_border"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class StoredTensor:
    """A node of the float graph and the integers that stand for it."""

    name: str
    kind: str
    source: int
    value: IntegerValue
    bits: int


@dataclass(frozen=True, eq=False)
class WeightTensor:
    """Weights as integers: shape with an axis of size 1 where a channel's scale is repeated."""

    name: str
    bits: int
    weights: Array
    integers: Array
    scale: Array
    accumulator_bits: int


@dataclass(frozen=True, eq=False)
class Lowered:
    """The integer graph, and the map from nodes to integer ones."""

    graph: TensorGraph
    inputs: tuple[IntegerValue, ...]
    outputs: tuple[IntegerValue, ...]
    in_float: tuple[str, ...]
    stored: tuple[StoredTensor, ...] = ()
    weights: tuple[WeightTensor, ...] = ()

    @classmethod
    def of(
        cls,
        graph: TensorGraph,
        builder: GraphBuilder,
        inputs: tuple[IntegerValue, ...],
        outputs: tuple[IntegerValue, ...],
        in_float: Sequence[str],
    ) -> Lowered:
        """The nodes of a builder with the borders of the float graph.

        Parameters
        ----------
        graph : TensorGraph
            In float.
        builder : GraphBuilder
        inputs, outputs : tuple of IntegerValue
            Integers in place of the graph's.
        in_float : sequence of str
            Names of nodes that are computed in float.
        """
        made, read = (tuple(v.node for v in border) for border in (outputs, inputs))
        integer = replace(graph, nodes=tuple(builder.nodes), inputs=read, outputs=made)
        return cls(integer, inputs, outputs, tuple(in_float))


def quantize_border(graph: TensorGraph, value: IntegerValue, number: int, x: npt.ArrayLike) -> Array:
    """Integers of float inputs: divided in float32, rounded half to even; integers of the input's type as they are.

    Parameters
    ----------
    graph : TensorGraph
    value : IntegerValue
    number : int
        Of the input, for the error.
    x : array_like
        Floats, or codes of the input's type.

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
        raise InputError(
            f"input {graph.input_names[number]!r} has NaN or infinite elements",
            where=model_place(graph.name),
            hint="give finite values, e.g. with numpy.nan_to_num",
        )
    if np.any(value.offset):
        steps = np.rint((array - value.offset) / value.scale)
    else:
        steps = np.rint(array.astype(np.float32) / value.scale.astype(np.float32)).astype(np.float64)
    return np.asarray(np.clip(steps + value.zero, value.low, value.high), dtype)
