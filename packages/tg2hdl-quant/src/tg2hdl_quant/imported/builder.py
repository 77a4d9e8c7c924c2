"""Integer nodes with proven bounds, constants kept in the order in which they are read."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import UnsupportedError
from tg2hdl_ir.tensors import GraphBuilder, TensorNode
from tg2hdl_quant.graph.integer_bounds import Bounds, integer_bounds
from tg2hdl_quant.graph.values import Value, compact, integer_type, move_array

__all__ = ["IntegerBuilder"]


class IntegerBuilder(GraphBuilder):
    """A `GraphBuilder` that knows the bounds of its integers."""

    def __init__(self) -> None:
        super().__init__()
        self._bounds: dict[int, Bounds] = {}

    def bounds(self, number: int) -> Bounds:
        """Smallest and largest element of a node."""
        return integer_bounds(self.nodes, self._bounds, number)

    def set_bounds(self, number: int, low: int, high: int) -> int:
        """The node, with bounds that are proven by how it was made."""
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

    def value(self, number: int, scale: npt.ArrayLike) -> Value:
        """A node with the value of a step."""
        low, high = self.bounds(number)
        return Value(number, np.asarray(scale, np.float64), low, high)

    def fitting(self, low: int, high: int, where: str, narrowest: int = 8) -> DType:
        """Integer type for bounds.

        Raises
        ------
        UnsupportedError
            Above 64 bits.
        """
        dtype = integer_type(low, high, narrowest)
        if dtype is None:
            raise UnsupportedError("a sum needs more than 64 bits", where=where)
        return dtype

    def plus(self, number: int, added: npt.NDArray[np.int64], where: str, narrowest: int = 8) -> int:
        """A node plus constants, in a type that holds all sums."""
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
        array = compact(np.asarray(added))
        return self.elementwise("ADD", self.cast(number, dtype), self.const(array, dtype), dtype=dtype)
