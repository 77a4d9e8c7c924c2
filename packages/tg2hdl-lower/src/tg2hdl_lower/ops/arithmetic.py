"""Combinational sums, differences and products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl_ir.dtype import DType

if TYPE_CHECKING:
    from amaranth import Module
    from amaranth.hdl import Value

__all__ = ["build_add", "build_mul", "build_neg", "build_sub"]


def build_add(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Sum."""
    return operands[0] | operands[1] if result.is_bool else operands[0] + operands[1]


def build_sub(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Difference."""
    return operands[0] ^ operands[1] if result.is_bool else operands[0] - operands[1]


def build_mul(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Product."""
    return operands[0] & operands[1] if result.is_bool else operands[0] * operands[1]


def build_neg(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Negation; of a bool, the value itself."""
    return operands[0] if result.is_bool else -operands[0]
