"""The nodes of one leaf while they are built, and the analyses of its values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tg2hdl_ir import (
    Affine,
    AffineAnalysis,
    DType,
    Interval,
    IRBufLoad,
    IRBufStore,
    IRCounter,
    IRStatement,
    LoopIR,
    RangeAnalysis,
)
from tg2hdl_ir.analysis.affine import LinearAnalysis
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_lower.memory.demand import effective_statements, needed_values
from tg2hdl_lower.memory.layout import Layout
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.values import Address, Constant, Counter

__all__ = ["LeafNodes"]


class LeafNodes:
    """Nodes of a leaf; equal ones are added once.

    Parameters
    ----------
    path : tuple of LoopIR
        Loops around the leaf, outermost first, and the leaf.
    first : int
        Number of the first node.
    """

    def __init__(
        self,
        number: int,
        path: tuple[LoopIR, ...],
        layouts: Mapping[int, Layout],
        ranges: RangeAnalysis,
        first: int,
    ) -> None:
        self.number = number
        self.path = path[1:]
        self.statements: tuple[IRStatement, ...] = effective_statements(path[-1])
        self.layouts = layouts
        self.ranges = ranges
        self.affine = AffineAnalysis(ranges)
        self.linear = LinearAnalysis(ranges)
        self.folder = Folder()
        self.needed = needed_values(self.statements)
        self.stored = {s.buf_idx for s in self.statements if isinstance(s, IRBufStore)}
        self.nodes: dict[int, Node] = {}
        self.following = first
        """Number of the next node."""
        self._shared: dict[tuple[type[Node], object], int] = {}

    def add(self, kind: type[Node], dtype: DType, interval: Interval, **fields: Any) -> Node:
        """Add a node.

        Parameters
        ----------
        kind : type of Node
            Class of the node.
        dtype : DType
        interval : Interval
            Smallest and largest value.
        **fields
            Of the class.
        """
        node = kind(self.following, self.number, dtype, interval, **fields)
        self.nodes[node.number] = node
        self.following += 1
        return node

    def shared(self, kind: type[Node], key: object, dtype: DType, interval: Interval, **fields: Any) -> int:
        """Number of the node of this class and key, added if it is new.

        Parameters
        ----------
        kind : type of Node
            Class of the node.
        key : object
            Tells it from others of its class.
        dtype : DType
        interval : Interval
            Smallest and largest value.
        **fields
            Of the class.
        """
        if (kind, key) not in self._shared:
            self._shared[kind, key] = self.add(kind, dtype, interval, **fields).number
        return self._shared[kind, key]

    def constant(self, value: int, dtype: DType) -> int:
        """Node of a number, or of the bit pattern of a float.

        Parameters
        ----------
        value : int
            Number, or bit pattern of a float.
        dtype : DType
        """
        return self.shared(Constant, (value, dtype), dtype, (value, value), value=value)

    def affine_value(self, form: Affine, dtype: DType) -> int:
        """Node of an affine value: a counter, or a register with an adder.

        Parameters
        ----------
        form : Affine
            Constant plus multiples of counters and variables.
        dtype : DType
        """
        low = high = form.const
        for symbol, coefficient in form.terms:
            bounds = [coefficient * b for b in self.ranges.of(symbol)]
            low, high = low + min(bounds), high + max(bounds)
        if len(form.terms) == 1 and form.const == 0 and form.terms[0][1] == 1:
            symbol = form.terms[0][0]
            if isinstance(symbol, IRCounter):
                return self.shared(Counter, symbol.axis, dtype, (low, high), axis=symbol.axis, form=form)
        return self.shared(Address, (form, ()), dtype, (low, high), form=form)

    def loads(self, buffer: int) -> list[IRBufLoad]:
        """Loads of a buffer that something needs."""
        return [s for s in self.needed if isinstance(s, IRBufLoad) and s.buf_idx == buffer]
