"""Rows that are iterations in some lanes only, as rows that are full: the way in which memory holds them."""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np

from tg2hdl_tpu.device.code import RowPlace, Rows
from tg2hdl_tpu.device.emitter import CROSSBAR
from tg2hdl_tpu.device.tiles import Tile, TileEmitter
from tg2hdl_tpu.isa import XLU

__all__ = ["compact"]


def compact(emit: TileEmitter, value: Tile, extent: int, total: int) -> Tile:
    """Put elements side by side.

    Parameters
    ----------
    emit : TileEmitter
    value : Tile
        Neighbouring rows; a line of `extent` elements begins with each row that does not continue one.
    extent, total : int
        Elements of a line, and of all.
    """
    lanes = emit.config.lanes
    high, count = -(-extent // lanes), -(-total // lanes)
    turn = extent // gcd(extent, lanes)  # rows of the result after which lanes are the same
    step = turn * lanes // extent * high
    whole = total // lanes
    result = Rows(count)
    for phase in range(min(turn, count)):
        full = -(-(whole - phase) // turn) if phase < whole else 0
        if full:
            _collect(emit, value, result, phase, full, (turn, step), np.arange(lanes), extent)
        if whole < count and (count - 1) % turn == phase:
            used = np.minimum(np.arange(lanes), total - 1 - (count - 1) * lanes)
            _collect(emit, value, result, count - 1, 1, (0, 0), used, extent)
    return Tile(result, False, 0, (1,))


def _collect(
    emit: TileEmitter,
    value: Tile,
    result: Rows,
    row: int,
    count: int,
    steps: tuple[int, int],
    lane: np.ndarray,
    extent: int,
) -> None:
    """Rows of the result from `row` on, so many `steps` apart, from rows of the value."""
    lanes = emit.config.lanes
    element = row * lanes + lane
    line, place = element // extent, element % extent
    source = line * -(-extent // lanes) + place // lanes
    to, over = steps if count > 1 else (0, 0)
    order = RowPlace(emit.code.constant((place % lanes).astype(np.int32)))
    before: RowPlace | None = None
    rows = np.unique(source)
    for n, from_ in enumerate(rows):
        inside = source == from_
        turns = np.unique((place - np.arange(lanes))[inside] % lanes)
        moved: dict[str, Any] = {"pre": CROSSBAR, "count": count}
        moved |= (
            {"xlu": XLU.index("rotate"), "k": int(turns[0])}
            if len(turns) == 1
            else {"xlu": XLU.index("permute"), "b": order}
        )
        here = RowPlace(value.rows, value.first + int(from_), over)
        into = (
            RowPlace(result, row, to) if n == len(rows) - 1 else RowPlace(Rows(count), stride=int(count > 1))
        )
        if before is None:
            emit.line("copy", dst=into, a=here, **moved)
        else:
            if len(turns) > 1:
                found = RowPlace(Rows(count), stride=int(count > 1))
                emit.line("copy", dst=found, a=here, **moved)
                here, moved = found, {"count": count}
            emit.line("copy", dst=into, a=RowPlace(emit.code.constant(inside)), count=count)
            emit.line("select", dst=into, a=here, b=before, **moved)
        before = into
