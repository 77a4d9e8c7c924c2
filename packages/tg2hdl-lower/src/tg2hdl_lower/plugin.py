"""Plugin module of the built-in lowerings and integer units."""

from __future__ import annotations

from tg2hdl_ir.plugins.descriptors import ArithmeticUnit, OpLowering
from tg2hdl_ir.plugins.hookspecs import hookimpl

__all__ = ["tg2hdl_arithmetic_units", "tg2hdl_op_lowerings"]


@hookimpl
def tg2hdl_op_lowerings() -> list[OpLowering]:
    """Combinational hardware of the integer and bit-pattern ops."""
    from tg2hdl_lower.ops.lowerings import builtin_lowerings

    return builtin_lowerings()


@hookimpl
def tg2hdl_arithmetic_units() -> list[ArithmeticUnit]:
    """Pipelined division of integers, and multiplication of wide ones."""
    from tg2hdl_lower.ops.units import builtin_units

    return builtin_units()
