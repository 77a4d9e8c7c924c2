"""Combinational operations on bit patterns: logic, shifts, selection and conversion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl_ir import DType

if TYPE_CHECKING:
    from amaranth import Module
    from amaranth.hdl import Value

__all__ = [
    "build_and",
    "build_bitcast",
    "build_cast",
    "build_float_neg",
    "build_float_of_truth",
    "build_or",
    "build_shl",
    "build_shr",
    "build_truth_of_float",
    "build_where",
    "build_xor",
    "resized",
]


def resized(m: Module, value: Value, width: int) -> Value:
    """Same number in exactly `width` bits.

    Parameters
    ----------
    m : Module
        Of the kernel.
    value : Value
    width : int
        Bits.
    """
    from amaranth.hdl import Signal, signed, unsigned

    if len(value) < width:
        full = Signal(signed(width) if value.shape().signed else unsigned(width))
        m.d.comb += full.eq(value)
        value = full
    return value[:width]


def build_and(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Bitwise and.

    Parameters
    ----------
    m, operands, types, result
        As of `tg2hdl_ir.plugins.OpLowering`'s `build`.
    """
    return operands[0] & operands[1]


def build_or(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Bitwise or.

    Parameters
    ----------
    m, operands, types, result
        As of `tg2hdl_ir.plugins.OpLowering`'s `build`.
    """
    return operands[0] | operands[1]


def build_xor(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Bitwise exclusive or.

    Parameters
    ----------
    m, operands, types, result
        As of `tg2hdl_ir.plugins.OpLowering`'s `build`.
    """
    return operands[0] ^ operands[1]


def build_where(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Select by a condition.

    Parameters
    ----------
    m, operands, types, result
        As of `tg2hdl_ir.plugins.OpLowering`'s `build`.
    """
    from amaranth.hdl import Mux

    return Mux(operands[0], operands[1], operands[2])


def build_cast(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Integer conversion: modulo 2^n; to bool: not zero.

    Parameters
    ----------
    m, operands, types, result
        As of `tg2hdl_ir.plugins.OpLowering`'s `build`.
    """
    return operands[0].any() if result.is_bool else operands[0]


def build_bitcast(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Same bits; a bool counts as a byte that is 0 or 1.

    Parameters
    ----------
    m, operands, types, result
        As of `tg2hdl_ir.plugins.OpLowering`'s `build`.
    """
    value = operands[0]
    if result.is_bool:
        return value.any()
    bits = resized(m, value, result.bit_width)
    return bits.as_signed() if result.kind == "int" else bits


def build_float_neg(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Flip the sign bit, of a NaN too.

    Parameters
    ----------
    m, operands, types, result
        As of `tg2hdl_ir.plugins.OpLowering`'s `build`.
    """
    from amaranth.hdl import Cat

    return Cat(operands[0][:-1], ~operands[0][-1])


def build_truth_of_float(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Whether a float is not zero; NaN is not.

    Parameters
    ----------
    m, operands, types, result
        As of `tg2hdl_ir.plugins.OpLowering`'s `build`.
    """
    return operands[0][:-1].any()


def build_float_of_truth(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """0.0 or 1.0.

    Parameters
    ----------
    m, operands, types, result
        As of `tg2hdl_ir.plugins.OpLowering`'s `build`.
    """
    from amaranth.hdl import Const, Mux

    return Mux(operands[0], Const(result.const_to_bits(1.0), result.bit_width), 0)


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
    """Left shift; 0 beyond the width.

    Parameters
    ----------
    m, operands, types, result
        As of `tg2hdl_ir.plugins.OpLowering`'s `build`.
    """
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
    """Right shift, arithmetic for signed values; the sign beyond the width.

    Parameters
    ----------
    m, operands, types, result
        As of `tg2hdl_ir.plugins.OpLowering`'s `build`.
    """
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
