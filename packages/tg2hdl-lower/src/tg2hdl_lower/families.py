"""FPGA families that designs are planned for."""

from __future__ import annotations

from tg2hdl_ir import FamilyDef, registry

__all__ = ["GENERIC", "family_named"]

GENERIC = FamilyDef("generic", "any part", stage_levels=4, read_latency=2, product_latency=2)


def family_named(name: str) -> FamilyDef:
    """Figures of a family; those that suit any part where no plugin describes it."""
    return registry().family(name) or GENERIC
