"""A policy: of the units of an op, the one with the fewest LUTs and flip-flops."""

from __future__ import annotations

from tg2hdl_ir import ArithmeticUnit, DType, hookimpl


@hookimpl
def tg2hdl_select_unit(op: str, candidates: list[ArithmeticUnit], result: DType) -> ArithmeticUnit | None:
    """Leave integers to the priorities, and units whose area is unknown alone."""
    known = [unit for unit in candidates if unit.area.lut]
    if not known or not result.is_float:
        return None
    return min(known, key=lambda unit: (unit.area.lut + unit.area.ff, unit.name))
