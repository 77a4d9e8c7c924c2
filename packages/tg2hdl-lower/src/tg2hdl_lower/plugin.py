"""Plugin module of the built-in lowerings and integer units."""

from __future__ import annotations

from tg2hdl_ir import ArithmeticUnit, FamilyDef, MemoryKindDef, OpLowering, hookimpl

__all__ = ["tg2hdl_arithmetic_units", "tg2hdl_families", "tg2hdl_memory_kinds", "tg2hdl_op_lowerings"]


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


@hookimpl
def tg2hdl_families() -> list[FamilyDef]:
    """Figures that suit any part."""
    from tg2hdl_lower.families import GENERIC

    return [GENERIC]


@hookimpl
def tg2hdl_memory_kinds() -> list[MemoryKindDef]:
    """Block RAM, LUT RAM, words that are constant during a run, and banks of ROM."""
    folder = "tg2hdl_lower.memory"
    return [
        MemoryKindDef("lut", "LUT RAM, for small memories", f"{folder}.lut:LutRam"),
        MemoryKindDef("block", "block RAM", f"{folder}.block:BlockRam", 10),
        MemoryKindDef(
            "run-constant", "one word that no kernel updates", f"{folder}.run_constant:RunConstant", 20
        ),
        MemoryKindDef("banked", "ROM that is deeper than a block", f"{folder}.block:BankedRom", 30),
    ]
