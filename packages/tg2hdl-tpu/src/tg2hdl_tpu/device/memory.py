"""Loads and stores of buffers in external memory, whose bytes are those of tinygrad's buffers."""

from __future__ import annotations

from tg2hdl_ir.dtype import DType
from tg2hdl_tpu.device.arithmetic import wrapped
from tg2hdl_tpu.device.code import Label, Place, Rows
from tg2hdl_tpu.device.emitter import (
    CROSSBAR,
    EXTERNAL,
    GATE,
    ROW,
    SEGMENT,
    WORD,
    Constant,
    Emitter,
    Value,
    Vector,
)
from tg2hdl_tpu.isa import XLU

__all__ = ["elements_of_word", "load", "store"]

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
    if isinstance(address, Constant):
        at = address.bits >> narrow
        return Constant(at >> levels), Constant(at & (lanes - 1))
    word = emit.operate("sra", address, Constant(narrow)) if narrow else address
    return emit.operate("sra", word, Constant(levels)), emit.operate("and", word, Constant(lanes - 1))


def _bit(emit: Emitter, address: Value, narrow: int) -> Value:
    """First bit of an element in its word."""
    width = 5 - narrow
    if isinstance(address, Constant):
        return Constant((address.bits & ((1 << narrow) - 1)) << width)
    return emit.operate("shl", emit.operate("and", address, Constant((1 << narrow) - 1)), Constant(width))


def load(emit: Emitter, slot: int, dtype: DType, address: Value) -> Value:
    """Read an element for each thread, now."""
    narrow = _narrow(dtype)
    row, lane = _split(emit, address, narrow)
    if isinstance(address, Vector) and not address.uniform:
        assert isinstance(row, Vector)
        assert isinstance(lane, Vector)
        word = _gather(emit, slot, row, lane)
    else:
        word = _one(emit, slot, row, lane)
    if not narrow:
        return word
    byte = emit.operate("shr", word, _bit(emit, address, narrow))
    if dtype.is_bool:
        return emit.operate("ne", emit.operate("and", byte, Constant(255)), Constant(0))
    return wrapped(emit, byte, dtype)


def _fetch(emit: Emitter, slot: int, row: Value, into: Rows) -> None:
    """One external row, now."""
    if isinstance(row, Constant):
        emit.line("load", dst=Place(into), b=row.bits, slot=slot, count=1)
    else:
        emit.register(EXTERNAL, row)
        emit.line("load", dst=Place(into), b=0, b_reg=EXTERNAL, slot=slot, count=1)


def _one(emit: Emitter, slot: int, row: Value, lane: Value) -> Vector:
    fetched = Rows(1)
    _fetch(emit, slot, row, fetched)
    result = emit.new(uniform=True, level=emit.depth)
    if isinstance(lane, Constant):
        fields = {"xlu": _BROADCAST, "k": lane.bits}
        emit.line("copy", dst=Place(result.rows), a=Place(fetched), count=1, pre=CROSSBAR, **fields)
    else:
        emit.permute(Place(fetched), lane, result.rows)
    return result


def _gather(emit: Emitter, slot: int, row: Vector, lane: Vector) -> Vector:
    """Element by element: fetch the row of each, then put its word into the lane."""
    lanes = emit.config.lanes
    result = emit.new(uniform=False, level=emit.depth)
    fetched = Rows(lanes)

    def body() -> None:
        for k in range(lanes):
            emit.line("lda", a=Place(row.rows, register=ROW), dst_reg=EXTERNAL, k=k)
            emit.line("load", dst=Place(fetched, row=k), b=0, b_reg=EXTERNAL, slot=slot, count=1)
        emit.line(
            "copy",
            dst=Place(result.rows, stride=1, register=SEGMENT),
            a=Place(fetched, stride=1),
            b=Place(lane.rows, register=ROW),
            pre=CROSSBAR,
            xlu=_PERMUTE,
            segment=lanes.bit_length() - 1,
            count=lanes,
        )

    emit.each_row(result.rows.count, body)
    return result


def store(emit: Emitter, slot: int, dtype: DType, address: Value, value: Value, gate: Value | None) -> None:
    """Write an element for each thread whose gate is true, now."""
    if isinstance(gate, Constant):
        if not gate.bits:
            return
        gate = None
    narrow = _narrow(dtype)
    uniform = not isinstance(address, Vector) or address.uniform
    clear: Vector | None = None
    if narrow:
        bit = _bit(emit, address, narrow)
        mask = (1 << (32 >> narrow)) - 1
        value = emit.operate("shl", emit.operate("and", value, Constant(mask)), bit)
        ones = emit.operate("shl", Constant(mask), bit)
        clear = emit.operate("xor", ones, Constant(-1))
    row, lane = _split(emit, address, narrow)
    rows, lanes_of, data = (emit.vector(v, emit.depth) for v in (row, lane, value))
    fetched = Rows(1)

    def element(k: int) -> None:
        def at(vector: Vector) -> Place:
            return Place(vector.rows, register=0 if vector.rows.count == 1 else ROW)

        skip = Label()
        if isinstance(gate, Vector):
            emit.line("lda", a=at(gate), dst_reg=GATE, k=k)
            emit.line("bz", target=skip, a_reg=GATE)
        emit.line("lda", a=at(rows), dst_reg=EXTERNAL, k=k)
        emit.line("lda", a=at(lanes_of), dst_reg=WORD, k=k)
        emit.line("load", dst=Place(fetched), b=0, b_reg=EXTERNAL, slot=slot, count=1)
        target = Place(fetched, register=WORD)
        word = {"segment": emit.config.lanes.bit_length() - 1, "count": 1}
        crossbar = {"pre": CROSSBAR, "xlu": _BROADCAST, "k": k}
        if clear is None:
            emit.line("copy", dst=target, a=at(data), **crossbar, **word)
        else:
            emit.line("and", dst=target, a=at(clear), b=Place(fetched), **crossbar, **word)
            emit.line("or", dst=target, a=at(data), b=Place(fetched), **crossbar, **word)
        emit.line("store", a=Place(fetched), b=0, b_reg=EXTERNAL, slot=slot, count=1)
        emit.place(skip)

    if uniform:
        element(0)
        return

    def body() -> None:
        for k in range(emit.config.lanes):
            element(k)

    emit.each_row(emit.threads, body)
