"""FPGA families that designs are planned for."""

from __future__ import annotations

from tg2hdl_ir.plugins.descriptors import FamilyDef, MemoryFigures
from tg2hdl_ir.plugins.registry import registry

__all__ = ["ECP5", "FAMILIES", "GENERIC", "family_named"]

GENERIC = FamilyDef("generic", "any part", stage_levels=4, read_latency=2, product_latency=2)
ECP5 = FamilyDef("ecp5", "Lattice ECP5", stage_levels=2, read_latency=2, product_latency=4)
ICE40 = FamilyDef(
    "ice40",
    "Lattice iCE40",
    stage_levels=4,
    read_latency=2,
    product_latency=2,
    memory=MemoryFigures(block_bits=4096, block_words=2048),
)
FAMILIES = (GENERIC, ECP5, ICE40)


def family_named(name: str) -> FamilyDef:
    """Figures of a family; those that suit any part where no plugin describes it."""
    return next((family for family in registry().families() if family.name == name), GENERIC)
