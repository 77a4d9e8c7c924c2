"""Integer nodes with proven bounds, constants kept in the order in which they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import DType, UnsupportedError
from tg2hdl_ir.tensors import MOVEMENT, GraphBuilder, TensorNode
from tg2hdl_ir.tensors.narrow_multipliers import Staircase
from tg2hdl_quant.graph.values import IntegerValue, code_type, compact, integer_type, move_array, of_rank

__all__ = ["Bounds", "IntegerBuilder", "integer_bounds", "weighted_bounds"]


class IntegerBuilder(GraphBuilder):
    """A `GraphBuilder` that knows the bounds of its integers."""

    def __init__(self) -> None:
        super().__init__()
        self._bounds: dict[int, Bounds] = {}

    def bounds(self, number: int) -> Bounds:
        """Smallest and largest element of a node."""
        return integer_bounds(self.nodes, self._bounds, number)

    def set_bounds(self, number: int, low: int, high: int) -> int:
        """The node, with bounds that are proven by how it was made.

        Parameters
        ----------
        number : int
        low, high : int
            Smallest and largest value.
        """
        self._bounds[number] = (low, high)
        return number

    def move(self, node: TensorNode, source: int) -> int:
        """The movement of `node` on another operand; of a constant, a constant."""
        moved = self.nodes[source]
        if moved.op != "const" or node.op == "expand":
            return super().move(node, source)
        fill = 0.0 if node.op == "pad" else None
        array = move_array(node, moved.arg, moved.shape, fill)
        return self.const(np.broadcast_to(array, node.shape), moved.dtype, moved.label)

    def value(self, number: int, scale: npt.ArrayLike) -> IntegerValue:
        """A node with the value of a step.

        Parameters
        ----------
        number : int
        scale : array_like
            Of a step; it broadcasts to the node.
        """
        low, high = self.bounds(number)
        return IntegerValue(number, np.asarray(scale, np.float64), low, high)

    def product(self, a: IntegerValue, b: IntegerValue, dtype: DType) -> int:
        """Products of integers in a type.

        Parameters
        ----------
        a : IntegerValue
        b : IntegerValue
        dtype : DType
            Holds all products.
        """
        return self.elementwise("MUL", self.cast(a.node, dtype), self.cast(b.node, dtype), dtype=dtype)

    def summed(self, number: int, shape: tuple[int, ...], axes: tuple[int, ...], label: str) -> int:
        """Sums over axes of a node that broadcasts against a shape.

        Parameters
        ----------
        number : int
        shape : tuple of int
            To which the node broadcasts.
        axes : tuple of int
        label : str
            Name for messages.
        """
        dtype = self.nodes[number].dtype
        return self.reduce("sum", self.spread(number, shape), axes, dtype, label)

    def added(self, number: int, constant: npt.NDArray[Any], dtype: DType) -> int:
        """A node of a type plus a constant.

        Parameters
        ----------
        number : int
        constant : ndarray
            Broadcasts against the node.
        dtype : DType
            Of the node.
        """
        if not np.any(constant):
            return number
        return self.elementwise("ADD", number, self.const(compact(constant), dtype), dtype=dtype)

    def combined(
        self,
        terms: Sequence[tuple[int, npt.NDArray[np.int64]]],
        constant: npt.NDArray[np.int64],
        dtype: DType,
    ) -> int:
        """Sum of nodes times factors, and a constant, in a type that holds all partial sums.

        Parameters
        ----------
        terms : sequence of (int, ndarray)
            Node and factor of each.
        constant : ndarray
        dtype : DType
        """
        total = None
        for node, factor in terms:
            made = self.cast(node, dtype)
            if np.any(factor != 1):
                narrow = DType.INT32 if np.abs(factor).max() < 1 << 31 else dtype
                made = self.elementwise(
                    "MUL", made, self.cast(self.const(compact(factor), narrow), dtype), dtype=dtype
                )
            total = made if total is None else self.elementwise("ADD", total, made, dtype=dtype)
        assert total is not None
        return self.added(total, constant, dtype)

    def shifted(self, number: int, shift: npt.ArrayLike) -> int:
        """A right shift.

        Parameters
        ----------
        number : int
        shift : array_like
            In bits; it broadcasts to the node.
        """
        dtype = self.nodes[number].dtype
        return (
            self.elementwise("SHR", number, self.const(shift, dtype), dtype=dtype)
            if np.any(shift)
            else number
        )

    def stepped(
        self, term: IntegerValue, found: Staircase, constant: npt.NDArray[np.int64], where: str
    ) -> tuple[int, int]:
        """``(term * factor + constant) >> shift``, and its largest magnitude.

        Parameters
        ----------
        term : IntegerValue
        found : Staircase
            Factor and shift.
        constant : ndarray
            Added before the shift.
        where : str
            Layer, for the error.
        """
        reach = term.reach * int(np.abs(found.factor).max()) + int(np.abs(constant).max())
        dtype = self.fitting(-reach, reach, where, 32)
        number = self.combined([(term.node, found.factor)], constant, dtype)
        return self.shifted(number, found.shift), (reach >> found.shift) + 1

    def clipped(self, number: int, low: int, high: int, reach: int) -> int:
        """Saturate, where the reach of the integers requires it.

        Parameters
        ----------
        number : int
        low, high : int
            Smallest and largest result.
        reach : int
            Largest magnitude of the integers.
        """
        dtype = self.nodes[number].dtype
        if low > -reach:
            number = self.elementwise("MAX", number, self.const(low, dtype), dtype=dtype)
        if high < reach:
            bound = self.const(high, dtype)
            below = self.elementwise("CMPLT", number, bound, dtype=DType.BOOL)
            number = self.elementwise("WHERE", below, number, bound, dtype=dtype)
        return number

    def finished(self, number: int, shape: tuple[int, ...], low: int, high: int) -> int:
        """Codes in their type and shape.

        Parameters
        ----------
        number : int
        shape : tuple of int
            To which the node broadcasts.
        low, high : int
            Smallest and largest code.
        """
        return self.set_bounds(self.spread(self.cast(number, code_type(low, high)), shape), low, high)

    def looked_up(
        self, index: IntegerValue, codes: npt.NDArray[np.int64], bounds: Bounds, name: str, label: str
    ) -> int:
        """Codes by integers; `codes` begins with that of the smallest integer.

        Parameters
        ----------
        index : IntegerValue
            Integers.
        codes : ndarray
        bounds : Bounds
            Smallest and largest code.
        name : str
            Of the table.
        label : str
            Of the node, for messages.
        """
        dtype = code_type(*bounds)
        table = self.const(codes, dtype, f"{name}.table")
        place = self.added(self.cast(index.node, DType.INT32), np.asarray(-index.low), DType.INT32)
        made = self.add("gather", (table, place), self.nodes[index.node].shape, dtype, None, label)
        return self.set_bounds(made, *bounds)

    def fitting(self, low: int, high: int, where: str, narrowest: int = 8) -> DType:
        """Integer type for bounds.

        Parameters
        ----------
        low, high : int
            Both are included.
        where : str
            Layer, for the error.
        narrowest : int, default 8
            Fewest bits.

        Raises
        ------
        UnsupportedError
            Above 64 bits.
        """
        dtype = integer_type(low, high, narrowest)
        if dtype is None:
            raise UnsupportedError(
                "a sum needs more than 64 bits",
                where=where,
                hint="quantize to fewer bits, or use requantization='shift' where tg2hdl chooses the scales",
            )
        return dtype

    def plus(self, number: int, added: npt.NDArray[np.int64], where: str, narrowest: int = 8) -> int:
        """A node plus constants, in a type that holds all sums.

        Parameters
        ----------
        number : int
        added : ndarray
            Broadcasts against the node.
        where : str
            Layer, for the error.
        narrowest : int, default 8
            Fewest bits of the result.
        """
        if not np.any(added):
            return number
        low, high = self.bounds(number)
        # The type holds the operand too, so that its conversion loses nothing.
        least, most = min(low, low + int(added.min())), max(high, high + int(added.max()))
        dtype = self.fitting(least, most, where, narrowest)
        if added.min() < dtype.min_value or added.max() > dtype.max_value:
            # tinygrad's ranges do not wrap around: 3 + 253 in uint8 became 256 where it knew the 3.
            dtype = self.fitting(min(least, int(added.min())), max(most, int(added.max())), where, narrowest)
        shape = np.broadcast_shapes(self.nodes[number].shape, added.shape)
        if self.nodes[number].op == "const":
            return self.const(np.broadcast_to(self.nodes[number].arg + added, shape), dtype)
        return self.added(self.cast(number, dtype), np.asarray(added), dtype)


Bounds = tuple[int, int]


def integer_bounds(nodes: Sequence[TensorNode], known: dict[int, Bounds], number: int) -> Bounds:
    """Smallest and largest element of a node for any input; those of its type where nothing more is proven.

    Parameters
    ----------
    known : dict of int to Bounds
        Bounds proven elsewhere; new ones are added.
    """
    if number in known:
        return known[number]
    for source in _below(nodes, known, number):
        known[source] = _clipped(nodes[source], _bounds(nodes, known, nodes[source]))
    return known[number]


def weighted_bounds(
    weights: npt.NDArray[Any], values: Bounds, shape: tuple[int, ...], axes: tuple[int, ...]
) -> Bounds:
    """Smallest and largest sum of products with constant weights, over `axes` of `shape`.

    Parameters
    ----------
    weights : ndarray
        Of the rank of `shape`; an axis of size 1 repeats.
    """
    repeated = 1
    for axis in axes:
        if weights.shape[axis] == 1:
            repeated *= shape[axis]
    positive = np.maximum(weights, 0).sum(axes) * repeated
    negative = np.minimum(weights, 0).sum(axes) * repeated
    high = positive * values[1] + negative * values[0]
    low = positive * values[0] + negative * values[1]
    return int(min(low.min(), 0)), int(max(high.max(), 0))


def _below(nodes: Sequence[TensorNode], known: dict[int, Bounds], number: int) -> list[int]:
    """Nodes without bounds that `number` is made of, in order, and itself."""
    found, stack = set(), [number]
    while stack:
        current = stack.pop()
        if current not in found and current not in known:
            found.add(current)
            stack.extend(nodes[current].sources)
    return sorted(found)


def _clipped(node: TensorNode, bounds: Bounds) -> Bounds:
    """Bounds in the type of a node; a result that can wrap has all of them."""
    if node.dtype.is_float:
        return 0, 0
    least, most = _type_bounds(node)
    return bounds if least <= bounds[0] and bounds[1] <= most else (least, most)


def _type_bounds(node: TensorNode) -> Bounds:
    if node.dtype.is_bool:
        return 0, 1
    return node.dtype.min_value, node.dtype.max_value


def _bounds(nodes: Sequence[TensorNode], known: dict[int, Bounds], node: TensorNode) -> Bounds:
    sources = [known[s] for s in node.sources]
    if any(nodes[s].dtype.is_float for s in node.sources) or node.dtype.is_float:
        return _type_bounds(node) if not node.dtype.is_float else (0, 0)
    if node.op == "const":
        return (int(node.arg.min()), int(node.arg.max())) if node.arg.size else (0, 0)
    if node.op == "pad":
        return min(sources[0][0], 0), max(sources[0][1], 0)
    if node.op in MOVEMENT or node.op in ("cast", "max", "gather"):
        return sources[0]
    if node.op == "WHERE":
        return min(sources[1][0], sources[2][0]), max(sources[1][1], sources[2][1])
    if node.op == "ADD":
        return sources[0][0] + sources[1][0], sources[0][1] + sources[1][1]
    if node.op == "SUB":
        return sources[0][0] - sources[1][1], sources[0][1] - sources[1][0]
    if node.op == "MUL":
        corners = [a * b for a in sources[0] for b in sources[1]]
        return min(corners), max(corners)
    if node.op == "MAX":
        return max(sources[0][0], sources[1][0]), max(sources[0][1], sources[1][1])
    if node.op == "sum":
        return _sum_bounds(nodes, known, node)
    return _type_bounds(node)


def _sum_bounds(nodes: Sequence[TensorNode], known: dict[int, Bounds], node: TensorNode) -> Bounds:
    source = nodes[node.sources[0]]
    count = int(np.prod([source.shape[a] for a in node.arg]))
    low, high = known[node.sources[0]]
    plain = (low * count, high * count)
    if source.op != "MUL":
        return plain
    for weights, values in (source.sources, source.sources[::-1]):
        array = _constant(nodes, weights)
        if array is not None:
            array = of_rank(array, len(source.shape)).astype(np.int64)
            return weighted_bounds(array, known[values], source.shape, node.arg)
    return plain


def _constant(nodes: Sequence[TensorNode], number: int) -> npt.NDArray[Any] | None:
    """Elements of a node that is a constant in some order."""
    node = nodes[number]
    if node.op == "const":
        return np.asarray(node.arg)
    inner = _constant(nodes, node.sources[0]) if node.op in ("reshape", "permute", "cast", "ADD") else None
    if inner is None:
        return None
    if node.op == "reshape":
        return inner.reshape(node.shape)
    if node.op == "permute":
        return inner.transpose(node.arg)
    if node.op == "ADD":
        other = _constant(nodes, node.sources[1])
        return None if other is None else inner.astype(np.int64) + other
    return inner
