"""Loads and stores of neighbouring elements by neighbouring threads: whole rows by DMA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tg2hdl_ir import DType
from tg2hdl_tpu.device.arithmetic import from_bits, to_bits
from tg2hdl_tpu.device.code import RowPlace, Rows
from tg2hdl_tpu.device.emitter import CROSSBAR, EXTERNAL, Emitter, LaneConstant, Value, Vector
from tg2hdl_tpu.device.memory import elements_of_word
from tg2hdl_tpu.isa import REDUCE, XLU

__all__ = ["ThreadBlock", "load_run", "store_run"]


@dataclass(frozen=True)
class ThreadBlock:
    """Threads that run at a time.

    Parameters
    ----------
    number : Value
        Which of the equal blocks.
    start : int
        Row of threads with which block 0 begins.
    rows : int
        Rows of a block.
    ragged : int
        Threads in the last row; 0 for all lanes.
    """

    number: Value
    start: int
    rows: int
    ragged: int

    def row(self, emit: Emitter, per_word: int) -> Value:
        """First row of external memory, where element 0 belongs to thread 0.

        Parameters
        ----------
        emit : Emitter
            Gets the code.
        per_word : int
            Elements of a word of 32 bits.
        """
        first = self.start // per_word
        if isinstance(self.number, LaneConstant):
            return LaneConstant(first)
        step = emit.operate("mul", self.number, LaneConstant(self.rows // per_word))
        return emit.operate("add", step, LaneConstant(first)) if first else step

    def fits(self, per_word: int) -> bool:
        """Whether blocks begin with whole rows of narrow elements."""
        return self.start % per_word == 0 and (
            isinstance(self.number, LaneConstant) or self.rows % per_word == 0
        )


def _place(
    emit: Emitter, block: ThreadBlock, offset: Value, per_word: int, bounds: tuple[int, int] | None
) -> tuple[Value, Value]:
    """External row and lane of the first thread's element; the row is kept in `bounds`, for blocks all outside."""
    lanes = emit.config.lanes
    row = block.row(emit, per_word)
    if isinstance(offset, LaneConstant):
        shift: Value = LaneConstant(offset.bits // per_word % lanes)
        rows: Value = LaneConstant(offset.bits // per_word // lanes)
    else:
        words = (
            emit.operate("sra", offset, LaneConstant(per_word.bit_length() - 1)) if per_word > 1 else offset
        )
        shift = emit.operate("and", words, LaneConstant(lanes - 1)) if per_word == 1 else LaneConstant(0)
        rows = emit.operate("sra", words, LaneConstant(lanes.bit_length() - 1))
    if isinstance(row, LaneConstant) and isinstance(rows, LaneConstant):
        at = row.bits + rows.bits
        return LaneConstant(min(max(at, bounds[0]), bounds[1]) if bounds else at), shift
    first, second = (rows, row) if isinstance(row, LaneConstant) else (row, rows)
    place: Value = first
    if not isinstance(second, LaneConstant) or second.bits:
        place = emit.operate("add", first, second)
    if bounds:
        place = emit.operate(
            "min", emit.operate("max", place, LaneConstant(bounds[0])), LaneConstant(bounds[1])
        )
    return place, shift


def _move(emit: Emitter, op: str, slot: int, row: Value, rows: Rows, *, count: int, extra: int = 0) -> None:
    """DMA of neighbouring rows, now; `extra` rows further on in both memories."""
    place = RowPlace(rows, row=extra)
    side: dict[str, Any] = {"dst": place} if op == "load" else {"a": place}
    if isinstance(row, LaneConstant):
        emit.line(op, b=row.bits + extra, slot=slot, count=count, **side)
    else:
        emit.register(EXTERNAL, row)
        emit.line(op, b=extra, b_reg=EXTERNAL, slot=slot, count=count, **side)


def load_run(
    emit: Emitter, slot: int, dtype: DType, block: ThreadBlock, offset: Value, size: int | None
) -> Vector:
    """Read the elements `thread + offset`, now.

    Parameters
    ----------
    emit : Emitter
        Gets the code.
    slot : int
        Buffer.
    dtype : DType
        Of its elements.
    block : ThreadBlock
        The threads.
    offset : Value
        Elements, the same for all threads.
    size : int or None
        Elements of the buffer, where a block may lie outside, which then reads anything.
    """
    per_word = elements_of_word(dtype)
    lanes = emit.config.lanes
    words = -(-block.rows // per_word)
    bounds = None if size is None else (-block.rows - 2, -(-size // (lanes * per_word)) + 1)
    row, shift = _place(emit, block, offset, per_word, bounds)
    aligned = isinstance(shift, LaneConstant) and shift.bits == 0
    result = emit.new(uniform=False, level=emit.depth)
    if aligned and per_word == 1:
        _move(emit, "load", slot, row, result.rows, count=words)
        return result
    fetched = Rows(words if aligned else words + 1)
    _move(emit, "load", slot, row, fetched, count=fetched.count)
    if per_word > 1:
        return _unpacked(emit, fetched, result, dtype, per_word)
    lane = np.arange(lanes)
    if isinstance(shift, LaneConstant):
        index = Vector(emit.code.constant((lane + shift.bits) % lanes), False, 0)
        wraps = Vector(emit.code.constant(lane + shift.bits >= lanes), False, 0)
    else:
        level = emit.depth
        index, wraps = (Vector(Rows(1), False, level) for _ in range(2))
        own = Vector(emit.lanes(), False, 0)
        emit.operate("add", own, shift, into=index, level=level)
        emit.operate("lt", Vector(emit.code.constant(np.full(lanes, lanes - 1)), True, 0), index, into=wraps)
        emit.operate("and", index, LaneConstant(lanes - 1), into=index, level=level)
    step = int(block.rows > 1)
    other = Rows(block.rows)
    emit.permute(RowPlace(fetched, stride=step), index, other)
    emit.operate("copy", wraps, into=result, level=emit.depth)
    first = Rows(block.rows)
    emit.permute(RowPlace(fetched, row=1, stride=step), index, first)
    level = emit.depth
    emit.operate("select", Vector(first, False, level), Vector(other, False, level), into=result)
    return result


def _unpacked(emit: Emitter, fetched: Rows, result: Vector, dtype: DType, per_word: int) -> Vector:
    lanes = emit.config.lanes
    lane = np.arange(lanes)
    rows = result.rows.count
    for phase in range(min(per_word, rows)):
        count = -(-(rows - phase) // per_word)
        index = emit.code.constant(phase * (lanes // per_word) + lane // per_word)
        emit.line(
            "copy",
            dst=RowPlace(result.rows, row=phase, stride=per_word if count > 1 else 0),
            a=RowPlace(fetched, stride=int(count > 1)),
            b=RowPlace(index),
            pre=CROSSBAR,
            xlu=XLU.index("permute"),
            count=count,
        )
    width = 32 // per_word
    bit = Vector(emit.code.constant(lane % per_word * width), False, 0)
    value = emit.operate("shr", result, bit, level=emit.depth)
    narrow = from_bits(emit, value, dtype)
    assert isinstance(narrow, Vector)
    return narrow


def store_run(
    emit: Emitter,
    slot: int,
    dtype: DType,
    block: ThreadBlock,
    offset: Value,
    value: Value,
    gate: Value | None,
) -> bool:
    """Write the elements `thread + offset`, now; False, and nothing, where rows cannot be written as wholes.

    Parameters
    ----------
    emit : Emitter
        Gets the code.
    slot : int
        Buffer.
    dtype : DType
        Of its elements.
    block : ThreadBlock
        The threads.
    offset : Value
        Elements, the same for all threads.
    value : Value
        Of each thread.
    gate : Value or None
        Whether a thread writes; all do without it.
    """
    per_word = elements_of_word(dtype)
    if per_word > 1 and gate is not None:
        return False
    row, shift = _place(emit, block, offset, per_word, None)
    if not isinstance(shift, LaneConstant) or shift.bits:
        return False
    words = -(-block.rows // per_word)
    if per_word > 1:
        data = _packed(emit, to_bits(emit, value, dtype), block, per_word)
    elif gate is None and isinstance(value, Vector) and value.rows.count == block.rows and not value.uniform:
        data = value.rows
        if block.ragged:  # the last row is not the value's own
            data = Rows(block.rows)
            emit.copy_into(Vector(data, False, emit.depth), value)
    else:
        data = Rows(block.rows)
        kept = Vector(data, False, emit.depth)
        if gate is None:
            emit.copy_into(kept, value)
        else:
            old = Rows(block.rows)
            _move(emit, "load", slot, row, old, count=words)
            emit.copy_into(kept, gate)
            emit.operate("select", value, Vector(old, False, emit.depth), into=kept, level=emit.depth)
    if block.ragged or block.rows % per_word:
        _keep_rest(emit, slot, row, data, block, per_word)
    _move(emit, "store", slot, row, data, count=words)
    return True


def _packed(emit: Emitter, value: Value, block: ThreadBlock, per_word: int) -> Rows:
    lanes = emit.config.lanes
    width = 32 // per_word
    masked = emit.operate("and", value, LaneConstant((1 << width) - 1), level=emit.depth)
    bit = emit.code.constant(np.arange(lanes) % per_word * width)
    words = Rows(-(-block.rows // per_word))
    emit.line(
        "shl",
        dst=RowPlace(words, stride=int(block.rows > 1)),
        a=RowPlace(masked.rows, stride=int(masked.rows.count == block.rows and block.rows > 1)),
        b=RowPlace(bit),
        reduce=REDUCE.index("add"),
        levels=per_word - 1,
        pack=1,
        segment=per_word.bit_length() - 1,
        count=block.rows,
    )
    return words


def _keep_rest(emit: Emitter, slot: int, row: Value, data: Rows, block: ThreadBlock, per_word: int) -> None:
    """Replace words behind the last thread's element by those of the memory."""
    lanes = emit.config.lanes
    last = data.count - 1
    threads = (block.rows - 1) % per_word * lanes + (block.ragged or lanes)  # in the last row of words
    elements = np.arange(lanes * per_word) < threads
    mask = np.where(elements, (1 << 32 // per_word) - 1, 0).astype(np.uint64).reshape(lanes, per_word)
    bits = (mask << np.arange(per_word, dtype=np.uint64) * np.uint64(32 // per_word)).sum(1)
    ours = bits.astype(np.uint32).view(np.int32)
    old = Rows(data.count)
    _move(emit, "load", slot, row, old, count=1, extra=last)
    emit.line(
        "and",
        dst=RowPlace(old, row=last),
        a=RowPlace(old, row=last),
        b=RowPlace(emit.code.constant(~ours)),
        count=1,
    )
    emit.line(
        "and",
        dst=RowPlace(data, row=last),
        a=RowPlace(data, row=last),
        b=RowPlace(emit.code.constant(ours)),
        count=1,
    )
    emit.line(
        "or", dst=RowPlace(data, row=last), a=RowPlace(data, row=last), b=RowPlace(old, row=last), count=1
    )
