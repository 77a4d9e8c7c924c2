"""Combinational shifts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl_ir.dtype import DType
from tg2hdl_lower.ops.resize import resized

if TYPE_CHECKING:
    from amaranth import Module
    from amaranth.hdl import Value

__all__ = ["build_shl", "build_shr"]


def _amount(value: Value, width: int) -> tuple[Value, Value | None]:
    """Shift amount limited to the bits that matter, and whether it is at least the width; negative is beyond."""
    bits = max(1, (width - 1).bit_length())
    if not value.shape().signed and len(value) < bits:
        return value, None
    if not value.shape().signed and len(value) == bits and width == 1 << bits:
        return value, None
    small = value[:bits] if len(value) > bits else value.as_unsigned()
    beyond = value >= width
    return small, (beyond | (value < 0)) if value.shape().signed else beyond


def _shift_by(amount: Value, types: tuple[DType, ...]) -> int | None:
    """Constant shift amount, read as an unsigned number of its type."""
    from amaranth.hdl import Const

    return amount.value & ((1 << types[1].bit_width) - 1) if isinstance(amount, Const) else None


def build_shl(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Left shift; 0 beyond the width."""
    from amaranth.hdl import Const, Mux

    value, amount = operands
    width = result.bit_width
    known = _shift_by(amount, types)
    if known is not None:
        return value.shift_left(known) if known < width else Const(0)
    small, beyond = _amount(amount, width)
    shifted = resized(m, value, width) << small
    return shifted[:width] if beyond is None else Mux(beyond, 0, shifted[:width])


def build_shr(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Right shift, arithmetic for signed values; the sign beyond the width."""
    from amaranth.hdl import Const, Mux, signed

    value, amount = operands
    width = result.bit_width
    known = _shift_by(amount, types)
    if known is not None:
        return value.shift_right(min(known, width))
    small, beyond = _amount(amount, width)
    shifted = value >> small
    fill = Mux(value[-1], Const(-1, signed(1)), 0) if value.shape().signed else Const(0)
    return shifted if beyond is None else Mux(beyond, fill, shifted)
