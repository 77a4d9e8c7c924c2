"""The FPGA parts of this package and of plugins."""

from __future__ import annotations

from tg2hdl_ir import InputError, TargetDef, registry
from tg2hdl_synth.families.ecp5 import ECP5
from tg2hdl_synth.families.gowin import GOWIN
from tg2hdl_synth.families.ice40 import ICE40

__all__ = ["FAMILIES", "PARTS", "known_parts", "part_named"]

FAMILIES = (ECP5, ICE40, GOWIN)
PARTS = tuple(part for family in FAMILIES for part in family.parts)


def known_parts() -> tuple[TargetDef, ...]:
    """Parts of this package, the smaller ones of a family first, then those of plugins."""
    return (*PARTS, *(part for part in registry().targets() if part not in PARTS))


def part_named(name: str) -> TargetDef:
    """Return a registered part.

    Raises
    ------
    InputError
        When there is none of this name.
    """
    known = {part.name: part for part in known_parts()}
    if name not in known:
        raise InputError(
            f"part {name!r} is unknown",
            notes=registry().notes(),
            hint=f"choose one of: {', '.join(known)}",
        )
    return known[name]
