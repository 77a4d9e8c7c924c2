"""Combinational operations on bit patterns: logic, selection and conversion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl_ir.dtype import DType
from tg2hdl_lower.ops.resize import resized

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
    "build_truth_of_float",
    "build_where",
    "build_xor",
]


def build_and(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Bitwise and."""
    return operands[0] & operands[1]


def build_or(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Bitwise or."""
    return operands[0] | operands[1]


def build_xor(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Bitwise exclusive or."""
    return operands[0] ^ operands[1]


def build_where(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Select by a condition."""
    from amaranth.hdl import Mux

    return Mux(operands[0], operands[1], operands[2])


def build_cast(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Integer conversion: modulo 2^n; to bool: not zero."""
    return operands[0].any() if result.is_bool else operands[0]


def build_bitcast(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Same bits; a bool counts as a byte that is 0 or 1."""
    value = operands[0]
    if result.is_bool:
        return value.any()
    bits = resized(m, value, result.bit_width)
    return bits.as_signed() if result.kind == "int" else bits


def build_float_neg(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Flip the sign bit, of a NaN too."""
    from amaranth.hdl import Cat

    return Cat(operands[0][:-1], ~operands[0][-1])


def build_truth_of_float(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Whether a float is not zero; NaN is not."""
    return operands[0][:-1].any()


def build_float_of_truth(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """0.0 or 1.0."""
    from amaranth.hdl import Const, Mux

    return Mux(operands[0], Const(result.const_to_bits(1.0), result.bit_width), 0)
