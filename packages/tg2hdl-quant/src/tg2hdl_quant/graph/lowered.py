"""What lowering makes of a float graph: the integer graph, and what stands for what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from tg2hdl_ir.tensors import TensorGraph
from tg2hdl_quant.graph.values import Value

__all__ = ["Lowered", "StoredTensor", "WeightTensor"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class StoredTensor:
    """A node of the float graph and the integers that stand for it."""

    name: str
    kind: str
    source: int
    value: Value
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
    """The integer graph, and what stands for what."""

    graph: TensorGraph
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    stored: tuple[StoredTensor, ...]
    weights: tuple[WeightTensor, ...]
    in_float: tuple[str, ...] = ()
