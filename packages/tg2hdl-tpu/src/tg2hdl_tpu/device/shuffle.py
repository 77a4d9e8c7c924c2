"""Copies of bytes whose places are known: rows that lie in VMEM are permuted, and no element is fetched by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tg2hdl_ir import DType, IRBufLoad, IRBufStore, KernelIR, evaluate, is_const
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.device.code import RowPlace, Rows
from tg2hdl_tpu.device.emitter import CROSSBAR, Emitter
from tg2hdl_tpu.isa import REDUCE, XLU

__all__ = ["LARGEST", "Shuffle", "emit_shuffle", "shuffle_of"]

#: Bytes of a copy, which the program's length is in proportion to, and rows of words at a time.
LARGEST, _ROWS = 1 << 15, 64
#: Rows of VMEM for the words that are read, and for constants.
_WINDOW, _CONSTANTS = 256, 256
_PERMUTE = {"pre": CROSSBAR, "xlu": XLU.index("permute")}
_BYTES = 4

Table = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Shuffle:
    """Bytes of a buffer in another order.

    Parameters
    ----------
    source, target : int
        Slots.
    table : ndarray
        For each byte that is written the place of the one that is read, from 1 on; 0 for 0.
    parts : tuple of (int, int, ndarray)
        First external row that is read, their number, and for each row of words that is written its elements, which
        count from there; -1 for 0.
    cost : int
        Cycles.
    """

    source: int
    target: int
    table: Table
    parts: tuple[tuple[int, int, Table], ...]
    cost: int

    def tiled(self, config: Config, depth: int, width: int) -> Shuffle | None:
        """The copy of a matrix, with tiles of the matrix unit as `Matrix.tiles` says, in columns of at most a row.

        Parameters
        ----------
        config : Config
            The machine, with the sides of its matrix unit.
        depth, width : int
            Rows and columns of the matrix; multiples of these sides.
        """
        wide = min(width, _BYTES * config.lanes)
        table = self.table[: depth * width].reshape(
            depth // config.rows, config.rows, width // wide, wide // config.columns, config.columns
        )
        return _shuffle(self.source, self.target, table.transpose(2, 0, 3, 1, 4).reshape(-1), config)


def shuffle_of(kernel: KernelIR, config: Config) -> Shuffle | None:
    """A kernel that only copies bytes, where it is small enough.

    Parameters
    ----------
    kernel : KernelIR
    config : Config
        The machine.
    """
    statements = list(kernel.loop_tree.statements())
    if len(statements) != 2 or kernel.variables:
        return None
    load, store = statements
    if not isinstance(load, IRBufLoad) or not isinstance(store, IRBufStore) or store.value is not load:
        return None
    if store.gate is not None or not (load.gate is None or is_const(load.alt, 0)):
        return None
    source, target = kernel.buffer(load.buf_idx), kernel.buffer(store.buf_idx)
    if (source.dtype, target.dtype) != (DType.INT8, DType.INT8) or target.depth > LARGEST:
        return None
    found = np.zeros(target.depth, np.int64)
    alone = replace(kernel, buffers=(source, target))
    for bit in range(0, source.depth.bit_length(), 7):  # the copy of numbers tells the place of each element
        digits = (np.arange(1, source.depth + 1) >> bit & 127).astype(np.int8)
        found |= evaluate(alone, {source.idx: digits})[target.idx].astype(np.int64) << bit
    return _shuffle(source.idx, target.idx, found, config)


def _shuffle(source: int, target: int, table: Table, config: Config) -> Shuffle | None:
    row = _BYTES * config.lanes
    table = np.concatenate([table, np.zeros(-len(table) % row, np.int64)])
    parts = _parts(table.reshape(-1, config.lanes) - 1, config.lanes)
    if parts is None:
        return None
    constants = {
        row.tobytes() for _, _, rows in parts for line in rows for row in (_index(line), *_masks(line)[1])
    }
    if len(constants) > _CONSTANTS:
        return None
    cost = sum(12 * count + len(rows) + 8 + sum(_cycles(line) for line in rows) for _, count, rows in parts)
    return Shuffle(source, target, table, tuple(parts), cost)


def _parts(table: Table, lanes: int) -> list[tuple[int, int, Table]] | None:
    """The rows that are written, with the rows that they read: once for all of them, or for each part."""
    row = _BYTES * lanes
    for size in (len(table), _ROWS, _ROWS // 2, _ROWS // 4):
        parts = []
        for start in range(0, len(table), size):
            rows = table[start : start + size]
            inside = rows[rows >= 0]
            first, last = (int(inside.min()) // row, int(inside.max()) // row) if inside.size else (0, 0)
            parts.append((first, last + 1 - first, np.where(rows < 0, -1, rows - first * row)))
        if all(_BYTES * count <= _WINDOW for _, count, _ in parts):
            whole = parts[0]
            if size == len(table):
                return [(*whole[:2], whole[2][n : n + _ROWS]) for n in range(0, len(table), _ROWS)]
            return parts
    return None


def _index(line: Table) -> NDArray[Any]:
    return np.where(line < 0, 0, line % len(line)).astype(np.int32)


def _masks(line: Table) -> tuple[list[int], NDArray[Any]]:
    """Rows of words that a row comes from, and which lanes from each."""
    rows = np.unique(line[line >= 0] // len(line))
    return rows.tolist(), np.where((line >= 0) & (line // len(line) == rows[:, None]), -1, 0).astype(np.int32)


def _cycles(line: Table) -> int:
    rows, _ = _masks(line)
    return 1 if len(rows) < 2 and line.min() >= 0 else 2 * max(len(rows), 1)


def emit_shuffle(emit: Emitter, shuffle: Shuffle) -> None:
    """Emit a copy, now.

    Parameters
    ----------
    emit : Emitter
        Gets the code.
    shuffle : Shuffle
    """
    lanes = emit.config.lanes
    at, window, words = 0, None, Rows(0)
    for first, count, table in shuffle.parts:
        if window != (first, count):
            window, words = (first, count), _words(emit, shuffle.source, first, count)
        rows, packed = Rows(len(table)), Rows(len(table) // _BYTES)
        for n, line in enumerate(table):
            _row(emit, words, RowPlace(rows, row=n), line)
        emit.line(
            "shl",
            dst=RowPlace(packed, stride=1),
            a=RowPlace(rows, stride=1),
            b=RowPlace(emit.code.constant(np.arange(lanes) % _BYTES * 8)),
            reduce=REDUCE.index("add"),
            levels=_BYTES - 1,
            pack=1,
            segment=_BYTES.bit_length() - 1,
            count=len(table),
        )
        emit.line("store", a=RowPlace(packed), b=at, slot=shuffle.target, count=packed.count)
        at += packed.count


def _words(emit: Emitter, slot: int, first: int, count: int) -> Rows:
    """External rows as words of a byte each."""
    lane = np.arange(emit.config.lanes)
    fetched, words = Rows(count), Rows(_BYTES * count)
    emit.line("load", dst=RowPlace(fetched), b=first, slot=slot, count=count)
    for phase in range(_BYTES):
        index = emit.code.constant(phase * (len(lane) // _BYTES) + lane // _BYTES)
        place = RowPlace(words, row=phase, stride=_BYTES)
        emit.line(
            "copy", dst=place, a=RowPlace(fetched, stride=1), b=RowPlace(index), count=count, **_PERMUTE
        )
    all_ = RowPlace(words, stride=1)
    emit.line("shr", dst=all_, a=all_, b=RowPlace(emit.code.constant(lane % _BYTES * 8)), count=words.count)
    emit.line("and", dst=all_, a=all_, b=255, constant=1, count=words.count)
    return words


def _row(emit: Emitter, words: Rows, target: RowPlace, line: Table) -> None:
    """Collect a row of words."""
    rows, masks = _masks(line)
    if not rows:
        emit.line("copy", dst=target, a=RowPlace(emit.zero()), count=1)
        return
    index = RowPlace(emit.code.constant(_index(line)))
    if len(rows) == 1 and line.min() >= 0:
        emit.line("copy", dst=target, a=RowPlace(words, row=rows[0]), b=index, count=1, **_PERMUTE)
        return
    found = Rows(len(rows))
    if rows[-1] - rows[0] == len(rows) - 1:
        place = RowPlace(words, row=rows[0], stride=1)
        emit.line("copy", dst=RowPlace(found, stride=1), a=place, b=index, count=len(rows), **_PERMUTE)
    else:
        for n, row in enumerate(rows):
            emit.line(
                "copy", dst=RowPlace(found, row=n), a=RowPlace(words, row=row), b=index, count=1, **_PERMUTE
            )
    kept = RowPlace(emit.code.constant(masks), stride=1)
    sums = {"accumulate": 1, "reduce": REDUCE.index("add")}
    emit.line("and", dst=target, a=RowPlace(found, stride=1), b=kept, count=len(rows), **sums)
