"""Emits operations on tiles: rows of VMEM with a stride for each loop whose iterations are rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from tg2hdl_tpu.device.axes import dense, spread
from tg2hdl_tpu.device.code import RowPlace, Rows
from tg2hdl_tpu.device.emitter import CROSSBAR, SWAPPED, Emitter, LaneConstant, Value, Vector
from tg2hdl_tpu.isa import XLU

__all__ = ["Tile", "TileEmitter"]


@dataclass(frozen=True, eq=False)
class Tile(Vector):
    """A value for each iteration: rows from `first` on, with a stride for each dimension of the space.

    Lane l of the value is lane l + `turn` of the rows, in a circle.
    """

    strides: tuple[int, ...] = ()
    first: int = 0
    turn: int = 0

    def at(self, dimension: int, index: int) -> Tile:
        """The part at one place of a dimension.

        Parameters
        ----------
        dimension : int
            Of the space; the part has not this one.
        index : int
            Place in it.
        """
        strides = (*self.strides[:dimension], *self.strides[dimension + 1 :])
        return replace(self, strides=strides, first=self.first + index * self.strides[dimension])

    def part(self, dimension: int, start: int) -> Tile:
        """The part from a place of a dimension on.

        Parameters
        ----------
        dimension : int
            Of the space.
        start : int
            First place in it.
        """
        return replace(self, first=self.first + start * self.strides[dimension])


class TileEmitter(Emitter):
    """Emits the operations of the IR at once, on all rows of the space."""

    def __init__(self, emit: Emitter) -> None:
        super().__init__(emit.config)
        self.code, self.scopes = emit.code, emit.scopes
        self.space: tuple[int, ...] = ()

    def single(self, bits: int) -> Tile:
        """A constant as a row."""
        row = self.code.constant(np.full(self.config.lanes, bits, np.int64).astype(np.int32))
        return Tile(row, True, 0, (0,) * len(self.space))

    def tile(self, value: Value) -> Tile:
        """The value as rows, lane by lane."""
        if isinstance(value, LaneConstant):
            return self.single(value.bits)
        assert isinstance(value, Tile)
        if value.turn:
            into = self.fresh([s != 0 for s in value.strides])
            self.rows("copy", into, value)
            return into
        return value

    def fresh(self, varies: Sequence[bool]) -> Tile:
        """Rows for a value that varies in these dimensions."""
        strides = dense(self.space, varies)
        count = prod(e for e, here in zip(self.space, varies, strict=True) if here)
        return Tile(Rows(count), False, 0, strides)

    def operate(
        self,
        op: str,
        a: Value,
        b: Value | None = None,
        *,
        into: Vector | None = None,
        level: int = 0,
        **fields: int,
    ) -> Tile:
        """``op(a, b)``, now.

        Parameters
        ----------
        op : str
            Name of the instruction.
        a, b : Value
            Operands; `b` may be missing.
        into : Vector or None
            Rows of the result; new ones without it.
        level : int
            Not used: an operation on tiles is emitted in the innermost scope.
        **fields : int
            Further fields of the instruction.
        """
        if isinstance(b, Tile) and b.turn and op in SWAPPED and not (isinstance(a, Tile) and a.turn):
            op, a, b = SWAPPED[op], b, a
        first = a if isinstance(a, Tile) else self.tile(a)
        second = None if b is None or isinstance(b, LaneConstant) else self.tile(b)
        if into is None:
            strides = (first.strides, (0,) * len(self.space) if second is None else second.strides)
            into = self.fresh([any(s) for s in zip(*strides, strict=True)])
        assert isinstance(into, Tile)
        assert not fields
        self.rows(op, into, first, b if isinstance(b, LaneConstant) else second)
        return into

    def rows(
        self,
        op: str,
        into: Tile,
        a: Tile,
        b: Value | None = None,
        *,
        space: Sequence[int] | None = None,
        register: int = 0,
        **fields: int,
    ) -> None:
        """Write ``op(a, b)`` to the rows of a tile.

        Parameters
        ----------
        op : str
            Name of the instruction.
        into : Tile
            Rows of the result.
        a, b : Tile
            Operands; `b` may be missing, and its lanes are not turned.
        space : sequence of int or None
            Extents, outermost first; those of the emitter by default.
        register : int
            Address register that is added to `a`; 0 for none.
        **fields : int
            Further fields of the instruction.
        """
        whole = self.space if space is None else space
        space = tuple(e if s else 1 for e, s in zip(whole, into.strides, strict=True))
        operands = [into.strides, a.strides]
        if isinstance(b, Tile):
            operands.append(b.strides)
        for firsts, count, strides in spread(space, *operands):
            parts: dict[str, Any] = dict(fields)
            if a.turn:
                parts |= {"pre": CROSSBAR, "xlu": XLU.index("rotate"), "k": a.turn}
            if isinstance(b, LaneConstant):
                parts |= {"b": b.bits, "constant": 1}
            elif isinstance(b, Tile):
                parts["b"] = RowPlace(b.rows, b.first + firsts[2], strides[2])
            self.line(
                op,
                dst=RowPlace(into.rows, into.first + firsts[0], strides[0]),
                a=RowPlace(a.rows, a.first + firsts[1], strides[1], register),
                count=count,
                **parts,
            )

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """``a`` where the condition is not 0, else ``b``, now.

        Parameters
        ----------
        condition : Value
        a, b : Value
        """
        if isinstance(condition, LaneConstant):
            return a if condition.bits else b
        operands = [v for v in (condition, a, b) if isinstance(v, Tile)]
        into = self.fresh([any(s) for s in zip(*(v.strides for v in operands), strict=True)])
        other = b if isinstance(b, LaneConstant) else self.tile(b)
        self.rows("copy", into, self.tile(condition))
        self.rows("select", into, a if isinstance(a, Tile) else self.tile(a), other)
        return into
