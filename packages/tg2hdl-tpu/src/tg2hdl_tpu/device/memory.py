"""Loads and stores of buffers in external memory, whose bytes are those of tinygrad's buffers."""

from __future__ import annotations

from tg2hdl_ir import DType
from tg2hdl_tpu.device.arithmetic import from_bits, to_bits
from tg2hdl_tpu.device.code import Label, RowPlace, Rows
from tg2hdl_tpu.device.emitter import (
    CROSSBAR,
    EXTERNAL,
    GATE,
    ROW,
    SEGMENT,
    WORD,
    Emitter,
    LaneConstant,
    Value,
    Vector,
)
from tg2hdl_tpu.isa import XLU

__all__ = ["elements_of_word", "load", "load_rows", "rows_of_step", "store", "store_rows"]

_BROADCAST = XLU.index("broadcast")
_PERMUTE = XLU.index("permute")


def elements_of_word(dtype: DType) -> int:
    """Elements of a type that share a word of 32 bits."""
    return 4 // dtype.numpy().itemsize


def _narrow(dtype: DType) -> int:
    return elements_of_word(dtype).bit_length() - 1


def _split(emit: Emitter, address: Value, narrow: int) -> tuple[Value, Value]:
    """External row of an element, counted from the buffer's first, and the lane in it."""
    lanes = emit.config.lanes
    levels = lanes.bit_length() - 1
    if isinstance(address, LaneConstant):
        at = address.bits >> narrow
        return LaneConstant(at >> levels), LaneConstant(at & (lanes - 1))
    word = emit.operate("sra", address, LaneConstant(narrow)) if narrow else address
    return emit.operate("sra", word, LaneConstant(levels)), emit.operate("and", word, LaneConstant(lanes - 1))


def _bit(emit: Emitter, address: Value, narrow: int) -> Value:
    """First bit of an element in its word."""
    width = 5 - narrow
    if isinstance(address, LaneConstant):
        return LaneConstant((address.bits & ((1 << narrow) - 1)) << width)
    return emit.operate(
        "shl", emit.operate("and", address, LaneConstant((1 << narrow) - 1)), LaneConstant(width)
    )


def load(emit: Emitter, slot: int, dtype: DType, address: Value) -> Value:
    """Read an element for each thread, now.

    Parameters
    ----------
    emit : Emitter
        Gets the code.
    slot : int
        Buffer.
    dtype : DType
        Of its elements.
    address : Value
        Element of each thread.
    """
    narrow = _narrow(dtype)
    row, lane = _split(emit, address, narrow)
    if isinstance(address, Vector) and not address.uniform:
        assert isinstance(row, Vector)
        assert isinstance(lane, Vector)
        word = _gather(emit, slot, row, lane)
    else:
        word = _one(emit, slot, row, lane)
    return _extracted(emit, word, address, dtype)


def _extracted(emit: Emitter, word: Value, address: Value, dtype: DType) -> Value:
    """The element in a word."""
    narrow = _narrow(dtype)
    if not narrow:
        return word
    byte = emit.operate("shr", word, _bit(emit, address, narrow))
    return from_bits(emit, byte, dtype)


def _fetch(emit: Emitter, slot: int, row: Value, into: Rows) -> None:
    """One external row, now."""
    if isinstance(row, LaneConstant):
        emit.line("load", dst=RowPlace(into), b=row.bits, slot=slot, count=1)
    else:
        emit.register(EXTERNAL, row)
        emit.line("load", dst=RowPlace(into), b=0, b_reg=EXTERNAL, slot=slot, count=1)


def _one(emit: Emitter, slot: int, row: Value, lane: Value) -> Vector:
    fetched = Rows(1)
    _fetch(emit, slot, row, fetched)
    result = emit.new(uniform=True, level=emit.depth)
    if isinstance(lane, LaneConstant):
        fields = {"xlu": _BROADCAST, "k": lane.bits}
        emit.line("copy", dst=RowPlace(result.rows), a=RowPlace(fetched), count=1, pre=CROSSBAR, **fields)
    else:
        emit.permute(RowPlace(fetched), lane, result.rows)
    return result


def _gather(emit: Emitter, slot: int, row: Vector, lane: Vector) -> Vector:
    """Element by element: fetch the row of each, then put its word into the lane."""
    lanes = emit.config.lanes
    result = emit.new(uniform=False, level=emit.depth)
    fetched = Rows(lanes)

    def body() -> None:
        for k in range(lanes):
            emit.line("lda", a=RowPlace(row.rows, register=ROW), dst_reg=EXTERNAL, k=k)
            emit.line("load", dst=RowPlace(fetched, row=k), b=0, b_reg=EXTERNAL, slot=slot, count=1)
        emit.line(
            "copy",
            dst=RowPlace(result.rows, stride=1, register=SEGMENT),
            a=RowPlace(fetched, stride=1),
            b=RowPlace(lane.rows, register=ROW),
            pre=CROSSBAR,
            xlu=_PERMUTE,
            segment=lanes.bit_length() - 1,
            count=lanes,
        )

    emit.each_row(result.rows.count, lanes, body)
    return result


def rows_of_step(emit: Emitter, dtype: DType, step: int, *, aligned: bool) -> int:
    """External rows that the elements of a row of threads may lie in, which are `step` apart.

    Parameters
    ----------
    emit : Emitter
        With the machine.
    dtype : DType
        Of the elements.
    step : int
        Elements from one thread to the next.
    aligned : bool
        Whether the element of the first lane begins a row.
    """
    lanes = emit.config.lanes
    apart = -(-(lanes - 1) * abs(step) // elements_of_word(dtype))
    if step == 0 or (aligned and step > 0 and apart < lanes):
        return 1
    return (apart + lanes - 1) // lanes + 1


def load_rows(
    emit: Emitter, slot: int, dtype: DType, address: Vector, step: int, count: int, size: int | None
) -> Value:
    """Read an element for each thread, now, by external rows as wholes.

    Parameters
    ----------
    emit : Emitter
        Gets the code.
    slot : int
        Buffer.
    dtype : DType
        Of its elements.
    address : Vector
        Element of each thread.
    step : int
        Elements from one thread to the next.
    count : int
        External rows, `rows_of_step`.
    size : int or None
        Elements of the buffer, where rows of threads may lie outside, which then read anything.
    """
    lanes = emit.config.lanes
    narrow = _narrow(dtype)
    row, lane = _split(emit, address, narrow)
    assert isinstance(row, Vector)
    assert isinstance(lane, Vector)
    base = 0 if step >= 0 else lanes - 1
    first = row
    if size is not None:
        last = -(-size // (lanes << narrow))
        first = emit.operate("min", emit.operate("max", row, LaneConstant(-count)), LaneConstant(last))
    fetched = Rows(emit.threads * count)

    def body() -> None:
        emit.line("lda", a=RowPlace(first.rows, register=ROW), dst_reg=EXTERNAL, k=base)
        target = RowPlace(fetched, register=SEGMENT)
        emit.line("load", dst=target, b=0, b_reg=EXTERNAL, slot=slot, count=count)

    emit.each_row(emit.threads, count, body)
    stride = count if emit.threads > 1 else 0
    word = emit.new(uniform=False, level=emit.depth)
    emit.permute(RowPlace(fetched, stride=stride), lane, word.rows)
    if count > 1:
        which = emit.operate("rsub", row, row, level=emit.depth, pre=CROSSBAR, xlu=_BROADCAST, k=base)
        for number in range(1, count):
            part = emit.new(uniform=False, level=emit.depth)
            emit.permute(RowPlace(fetched, row=number, stride=stride), lane, part.rows)
            chosen = emit.operate("eq", which, LaneConstant(number))
            emit.operate("select", part, word, into=chosen, level=emit.depth)
            word = chosen
    return _extracted(emit, word, address, dtype)


def store_rows(
    emit: Emitter, slot: int, address: Vector, value: Value, gate: Value | None, count: int
) -> None:
    """Write neighbouring words for the threads of each row, into at most two external rows, now.

    Parameters
    ----------
    emit : Emitter
        Gets the code.
    slot : int
        Buffer of words of 32 bits.
    address : Vector
        Element of each thread; those of a row are neighbours.
    value : Value
        Of each thread.
    gate : Value or None
        Whether a thread writes; all do without it.
    count : int
        External rows, 1 or 2.
    """
    lanes = emit.config.lanes
    row, lane = _split(emit, address, 0)
    assert isinstance(row, Vector)
    assert isinstance(lane, Vector)
    own = Vector(emit.lanes(), True, 0)
    level = emit.depth
    shift = emit.operate("copy", lane, level=level, pre=CROSSBAR, xlu=_BROADCAST, k=0)
    place = emit.operate("and", emit.operate("rsub", shift, own), LaneConstant(lanes - 1))
    data = emit.new(uniform=False, level=level)
    source = emit.vector(value, level)
    step = int(emit.threads > 1)
    emit.permute(RowPlace(source.rows, stride=step if source.rows.count > 1 else 0), place, data.rows)
    mask: Vector | None = None
    if gate is not None:
        given = emit.vector(gate, level)
        mask = emit.new(uniform=False, level=level)
        emit.permute(RowPlace(given.rows, stride=step if given.rows.count > 1 else 0), place, mask.rows)
        mask = emit.operate("ne", mask, LaneConstant(0))
    masks = []
    behind = emit.operate("rsub", shift, own)  # negative for the lanes of the second row
    for number in range(count):
        here = emit.operate("shr", behind, LaneConstant(31))
        if number == 0:
            here = emit.operate("xor", here, LaneConstant(1))
        masks.append(here if mask is None else emit.operate("and", here, mask))
    fetched, merged = Rows(count), Rows(count)

    def body() -> None:
        emit.line("lda", a=RowPlace(row.rows, register=ROW), dst_reg=EXTERNAL, k=0)
        emit.line("load", dst=RowPlace(fetched), b=0, b_reg=EXTERNAL, slot=slot, count=count)
        for number, chosen in enumerate(masks):
            target = RowPlace(merged, row=number)
            emit.line("copy", dst=target, a=RowPlace(chosen.rows, register=ROW), count=1)
            old = RowPlace(fetched, row=number)
            emit.line("select", dst=target, a=RowPlace(data.rows, register=ROW), b=old, count=1)
        emit.line("store", a=RowPlace(merged), b=0, b_reg=EXTERNAL, slot=slot, count=count)

    emit.each_row(emit.threads, 0, body)


def store(emit: Emitter, slot: int, dtype: DType, address: Value, value: Value, gate: Value | None) -> None:
    """Write an element for each thread whose gate is true, now.

    Parameters
    ----------
    emit : Emitter
        Gets the code.
    slot : int
        Buffer.
    dtype : DType
        Of its elements.
    address : Value
        Element of each thread.
    value : Value
        Of each thread.
    gate : Value or None
        Whether a thread writes; all do without it.
    """
    if isinstance(gate, LaneConstant):
        if not gate.bits:
            return
        gate = None
    narrow = _narrow(dtype)
    uniform = not isinstance(address, Vector) or address.uniform
    clear: Vector | None = None
    if narrow:
        bit = _bit(emit, address, narrow)
        mask = (1 << (32 >> narrow)) - 1
        bits = emit.operate("and", to_bits(emit, value, dtype), LaneConstant(mask))
        value = emit.operate("shl", bits, bit)
        ones = emit.operate("shl", LaneConstant(mask), bit)
        clear = emit.operate("xor", ones, LaneConstant(-1))
    row, lane = _split(emit, address, narrow)
    rows, lanes_of, data = (emit.vector(v, emit.depth) for v in (row, lane, value))
    fetched = Rows(1)

    def element(k: int) -> None:
        def at(vector: Vector) -> RowPlace:
            return RowPlace(vector.rows, register=0 if vector.rows.count == 1 else ROW)

        skip = Label()
        if isinstance(gate, Vector):
            emit.line("lda", a=at(gate), dst_reg=GATE, k=k)
            emit.line("bz", target=skip, a_reg=GATE)
        emit.line("lda", a=at(rows), dst_reg=EXTERNAL, k=k)
        emit.line("lda", a=at(lanes_of), dst_reg=WORD, k=k)
        emit.line("load", dst=RowPlace(fetched), b=0, b_reg=EXTERNAL, slot=slot, count=1)
        target = RowPlace(fetched, register=WORD)
        word = {"segment": emit.config.lanes.bit_length() - 1, "count": 1}
        crossbar = {"pre": CROSSBAR, "xlu": _BROADCAST, "k": k}
        if clear is None:
            emit.line("copy", dst=target, a=at(data), **crossbar, **word)
        else:
            emit.line("and", dst=target, a=at(clear), b=RowPlace(fetched), **crossbar, **word)
            emit.line("or", dst=target, a=at(data), b=RowPlace(fetched), **crossbar, **word)
        emit.line("store", a=RowPlace(fetched), b=0, b_reg=EXTERNAL, slot=slot, count=1)
        emit.place(skip)

    if uniform:
        element(0)
        return

    def body() -> None:
        for k in range(emit.config.lanes):
            element(k)

    emit.each_row(emit.threads, 0, body)
