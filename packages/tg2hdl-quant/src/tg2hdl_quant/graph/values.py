"""Integer tensors with the value of a step, and sums of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import DType
from tg2hdl_ir.tensors import GraphBuilder, TensorNode

__all__ = [
    "EXACT",
    "IntegerSum",
    "IntegerValue",
    "code_type",
    "compact",
    "integer_type",
    "is_power_of_two",
    "move_array",
    "of_rank",
]

Array = npt.NDArray[Any]
EXACT = 1 << 24
"""Integers below it are exact in float32."""


@dataclass(frozen=True, eq=False)
class IntegerValue:
    """Integers of the quantized graph.

    Parameters
    ----------
    node : int
    scale : ndarray of float64
        Value of one step; broadcasts against the tensor.
    low, high : int
        Bounds of the integers, proven.
    offset : ndarray of float64
        Added to the value of every element; zero but for inputs.
    zero : int
        Integer that stands for `offset`; not zero only at the borders of a model that has zero points.
    count : int
        Of how many integers each is the sum, where the scale is that of their mean.
    floats : str
        How float32 arithmetic, in any order, gives exactly ``float32(integer) * float32(scale)``: ``codes``, because
        it is one such product; ``sums``, because float32 holds every partial sum; empty where it may round otherwise.
    parts : tuple of IntegerValue
        The two tensors that it is the sum of; one of them may be a constant, which is in the offset of the sum.
    """

    node: int
    scale: Array
    low: int
    high: int
    offset: Array = field(default_factory=lambda: np.zeros(()))
    zero: int = 0
    count: int = 1
    floats: str = ""
    parts: tuple[IntegerValue, ...] = ()

    @property
    def reach(self) -> int:
        """Largest magnitude."""
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True, eq=False)
class IntegerSum:
    """Terms of one shape, and a constant that broadcasts against it."""

    terms: tuple[IntegerValue, ...]
    offset: Array
    shape: tuple[int, ...]

    @classmethod
    def of(cls, term: IntegerValue, shape: tuple[int, ...]) -> IntegerSum:
        """One term.

        Parameters
        ----------
        term : IntegerValue
        shape : tuple of int
            To which the term broadcasts.
        """
        return cls((term,), np.zeros(()), shape)

    def whole_steps(self) -> npt.NDArray[np.int64] | None:
        """The constant in steps of the only term; None where it is not a whole number of them.

        A bias in float32 is whole as far as its 24 bits tell.
        """
        steps = compact(self.offset) / self.terms[0].scale
        whole = np.rint(steps)
        if np.any(np.abs(steps - whole) > np.maximum(1e-4, np.abs(steps) * 2.0**-23)):
            return None
        return np.asarray(whole, np.int64)

    def plus(self, other: IntegerSum, shape: tuple[int, ...]) -> IntegerSum:
        """Sum of two sums.

        Parameters
        ----------
        other : IntegerSum
        shape : tuple of int
            Of the result.
        """
        return IntegerSum(self.terms + other.terms, self.offset + other.offset, shape)

    def floats(self) -> str:
        """`IntegerValue.floats` of the only term with the constant."""
        (term,) = self.terms
        if not np.any(self.offset):
            return term.floats
        steps = compact(self.offset) / term.scale
        reach = term.reach + float(np.abs(steps).max())
        whole = np.array_equal(steps, np.rint(steps))
        return "sums" if term.floats and whole and is_power_of_two(term.scale) and reach < EXACT else ""

    def times(self, factor: Array, shape: tuple[int, ...]) -> IntegerSum:
        """Product with a constant.

        Parameters
        ----------
        factor : ndarray
        shape : tuple of int
            Of the result.
        """
        kept = is_power_of_two(factor)
        terms = tuple(
            IntegerValue(t.node, t.scale * factor, t.low, t.high, floats=t.floats if kept else "")
            for t in self.terms
        )
        return IntegerSum(terms, self.offset * factor, shape)

    def moved(self, builder: GraphBuilder, node: TensorNode) -> IntegerSum:
        """The elements in another place.

        Parameters
        ----------
        builder : GraphBuilder
        node : TensorNode
            The movement.
        """
        terms = []
        for term in self.terms:
            scale = move_array(node, term.scale, self.shape, fill=None)
            low, high = (min(term.low, 0), max(term.high, 0)) if node.op == "pad" else (term.low, term.high)
            made = builder.move(node, builder.spread(term.node, self.shape))
            terms.append(replace(term, node=made, scale=scale, low=low, high=high, parts=()))
        return IntegerSum(tuple(terms), move_array(node, self.offset, self.shape, fill=0.0), node.shape)


def is_power_of_two(array: Array) -> bool:
    """Whether all numbers are powers of two, which scale without rounding."""
    return bool(np.all(np.frexp(array)[0] == 0.5))


def integer_type(low: int, high: int, narrowest: int = 8) -> DType | None:
    """Smallest integer type with these bounds; None above 64 bits.

    Parameters
    ----------
    low, high : int
        Both are included.
    narrowest : int, default 8
        Fewest bits.
    """
    for bits in (8, 16, 32, 64):
        if bits < narrowest:
            continue
        for kind in ("uint", "int") if low >= 0 and bits <= 8 else ("int",):
            dtype = DType.from_name(f"{kind}{bits}")
            if dtype.min_value <= low and high <= dtype.max_value:
                return dtype
    return None


def code_type(low: int, high: int) -> DType:
    """The narrowest type of codes.

    Parameters
    ----------
    low, high : int
        Both are included; at most 64 bits.
    """
    dtype = integer_type(low, high)
    assert dtype is not None
    return dtype


def of_rank(array: Array, rank: int) -> Array:
    """An array with axes of size 1 in front.

    Parameters
    ----------
    array : ndarray
    rank : int
        At least that of the array.
    """
    return array.reshape((1,) * (rank - array.ndim) + array.shape)


def compact(array: Array) -> Array:
    """An array of size 1 along each axis on which it repeats; one number without axes."""
    for axis in range(array.ndim):
        first = array.take([0], axis)
        if np.array_equal(np.broadcast_to(first, array.shape), array):
            array = first
    return array.reshape(()) if array.size == 1 else array


def move_array(node: TensorNode, array: Array, shape: tuple[int, ...], fill: float | None) -> Array:
    """The result of a movement of a constant that broadcasts; `fill` is put around it, None repeats its edge.

    Parameters
    ----------
    node : TensorNode
        The movement.
    array : ndarray
        Broadcasts to `shape`.
    shape : tuple of int
        Of the operand.
    fill : float or None
        Padding.
    """
    if array.size == 1 and (fill is None or node.op != "pad" or not np.any(array)):
        return array.reshape(())
    full = np.broadcast_to(array, shape)
    if node.op == "reshape":
        return full.reshape(node.shape)
    if node.op == "expand":
        return np.broadcast_to(full, node.shape)
    if node.op == "permute":
        return full.transpose(node.arg)
    if node.op == "pad":
        return np.pad(full, node.arg, mode="edge") if fill is None else np.pad(full, node.arg)
    if node.op == "shrink":
        return full[tuple(slice(a, b) for a, b in node.arg)]
    if node.op == "flip":
        return np.flip(full, node.arg)
    return full
