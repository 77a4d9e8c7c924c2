"""Descriptors of the integer units; Amaranth is imported when one is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tg2hdl_ir import Area, ArithmeticUnit, DType

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component

__all__ = ["IntegerUnit", "builtin_units"]

_WIDTHS = (8, 16, 32, 64)
_MULTIPLY_CYCLES = {32: 3, 64: 5}


@dataclass(frozen=True)
class IntegerUnit:
    """Factory of the unit of an op on an integer type."""

    op: str
    dtype: DType

    def __call__(self) -> Component:
        """Build the component."""
        from tg2hdl_lower.ops.division import Divider
        from tg2hdl_lower.ops.multiplication import Multiplier, pieces_of

        width, is_signed = self.dtype.bit_width, self.dtype.is_signed
        if self.op == "mul":
            return Multiplier((width, width), (pieces_of(width),) * 2, width)
        return Divider(width, is_signed, self.op == "mod")


@dataclass(frozen=True)
class IntegerConstantUnit:
    """Factory of the unit of a product by a constant of an integer type."""

    dtype: DType

    def __call__(self, constant: int) -> Component:
        """Build the component for a bit pattern."""
        from tg2hdl_lower.ops.constant_multiplication import ConstantMultiplier

        return ConstantMultiplier(self.dtype.bit_width, self.dtype.is_signed, constant)


def builtin_units() -> list[ArithmeticUnit]:
    """Dividers of all integer types and multipliers of the wide ones, all with II = 1."""
    types = [DType.from_name(f"{kind}{width}") for width in _WIDTHS for kind in ("int", "uint")]
    units = []
    for dtype in types:
        width = dtype.bit_width
        for op in ("div", "mod"):
            area = Area(lut=2 * width * width, ff=3 * width * width)
            units.append(_unit(op, dtype, width + 2, area))
        if width in _MULTIPLY_CYCLES:
            limbs = width // 16
            products = limbs * (limbs + 1) // 2
            area = Area(lut=width * products, ff=width * products, dsp=products)
            units.append(_unit("mul", dtype, _MULTIPLY_CYCLES[width], area))
    return units


def _unit(op: str, dtype: DType, latency: int, area: Area) -> ArithmeticUnit:
    return ArithmeticUnit(
        name=f"int.{op}.{dtype}",
        op=op,
        operands=(dtype, dtype),
        result=dtype,
        latency=latency,
        factory=IntegerUnit(op, dtype),
        area=area,
        constant=IntegerConstantUnit(dtype) if op == "mul" else None,
    )
