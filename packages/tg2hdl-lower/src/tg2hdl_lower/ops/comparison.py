"""Combinational comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl_ir import DType
from tg2hdl_lower.ops.bits import resized

if TYPE_CHECKING:
    from amaranth import Module
    from amaranth.hdl import Value

__all__ = ["build_eq", "build_lt", "build_max", "build_min", "build_ne"]


def _less(m: Module, a: Value, b: Value) -> Value:
    """``a < b`` with one carry chain, or with none next to a power of two.

    Yosys computes the overflow of a signed difference in a second chain.  With the sign bits exchanged the unsigned
    comparison gives the same.
    """
    from amaranth.hdl import Cat, Const

    if isinstance(b, Const):
        return _below(a, b.value)
    if isinstance(a, Const):
        return ~_below(b, a.value + 1)
    if not (a.shape().signed or b.shape().signed):
        return a < b
    width = max(len(v) + (not v.shape().signed) for v in (a, b))
    a, b = (resized(m, v, width) for v in (a, b))
    return Cat(a[:-1], b[-1]) < Cat(b[:-1], a[-1])


def _is_round(limit: int) -> bool:
    """Whether the upper bits decide the comparison: 0 and powers of two of either sign."""
    return abs(limit) & (abs(limit) - 1) == 0 if limit else True


def _below(value: Value, limit: int) -> Value:
    """``value < limit``, one bit."""
    from amaranth.hdl import Const

    if not _is_round(limit):
        return value < limit
    is_negative = value[-1] if value.shape().signed else Const(0, 1)
    magnitude = value[:-1] if value.shape().signed else value
    if limit == 0:
        return is_negative
    exponent = abs(limit).bit_length() - 1
    if exponent >= len(magnitude):
        return Const(limit > 0, 1)
    upper = magnitude[exponent:]
    return is_negative | ~upper.any() if limit > 0 else is_negative & ~upper.all()


def _with_constant_last(operands: list[Value]) -> tuple[Value, Value]:
    from amaranth.hdl import Const

    a, b = operands
    return (b, a) if isinstance(a, Const) else (a, b)


def build_min(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Smaller value.

    Parameters
    ----------
    m, operands, types, result
        As of `tg2hdl_ir.plugins.OpLowering`'s `build`.
    """
    from amaranth.hdl import Const, Mux

    a, b = _with_constant_last(operands)
    if result.is_bool:
        return a & b
    if isinstance(b, Const) and _is_round(b.value + 1):
        return Mux(_less(m, b, a), b, a)
    return Mux(_less(m, a, b), a, b)


def build_max(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Larger value.

    Parameters
    ----------
    m, operands, types, result
        As of `tg2hdl_ir.plugins.OpLowering`'s `build`.
    """
    from amaranth.hdl import Mux

    a, b = _with_constant_last(operands)
    return a | b if result.is_bool else Mux(_less(m, a, b), b, a)


def build_lt(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Less than.

    Parameters
    ----------
    m, operands, types, result
        As of `tg2hdl_ir.plugins.OpLowering`'s `build`.
    """
    return _less(m, *operands)


def build_eq(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Equal.

    Parameters
    ----------
    m, operands, types, result
        As of `tg2hdl_ir.plugins.OpLowering`'s `build`.
    """
    return operands[0] == operands[1]


def build_ne(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Different.

    Parameters
    ----------
    m, operands, types, result
        As of `tg2hdl_ir.plugins.OpLowering`'s `build`.
    """
    return operands[0] != operands[1]
