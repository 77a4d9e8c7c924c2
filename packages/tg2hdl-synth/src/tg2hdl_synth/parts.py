"""The FPGA parts that this package can synthesize for."""

from __future__ import annotations

from collections.abc import Mapping

from tg2hdl_ir.errors import InputError
from tg2hdl_ir.plugins.descriptors import TargetDef
from tg2hdl_ir.plugins.registry import registry

__all__ = ["PARTS", "is_full", "part_named"]

_FULL = 0.5
"""Share of the LUTs or flip-flops of an ECP5 above which a placement by ``heap`` may be unroutable."""


def _ecp5(device: str, lut: int, dsp: int, bram: int) -> TargetDef:
    return TargetDef(
        name=f"ecp5-{device}",
        family="ecp5",
        description=f"Lattice LFE5U-{device[:2]}F, CABGA381",
        lut=lut,
        ff=lut,
        dsp=dsp,
        bram=bram,
        bram_bits=18432,
        options=(("device", device), ("package", "CABGA381")),
    )


def _ice40(device: str, package: str, part: str, lut: int, dsp: int, bram: int) -> TargetDef:
    return TargetDef(
        name=f"ice40-{device}",
        family="ice40",
        description=f"Lattice {part}, {package}",
        lut=lut,
        ff=lut,
        dsp=dsp,
        bram=bram,
        bram_bits=4096,
        options=(("device", device), ("package", package)),
    )


def _gowin(name: str, description: str, lut: int, ff: int, dsp: int, bram: int) -> TargetDef:
    return TargetDef(name, "gowin", description, lut=lut, ff=ff, dsp=dsp, bram=bram, bram_bits=18432)


PARTS = (
    _ecp5("25k", 24288, 28, 56),
    _ecp5("45k", 43848, 72, 108),
    _ecp5("85k", 83640, 156, 208),
    _ice40("up5k", "sg48", "iCE40UP5K", 5280, 8, 30),
    _ice40("hx8k", "ct256", "iCE40HX8K", 7680, 0, 32),
    _gowin("gw1nr-9c", "Gowin GW1NR-LV9QN88P", 8640, 6480, 20, 26),
    _gowin("gw2ar-18c", "Gowin GW2AR-LV18QN88", 20736, 15552, 48, 46),
)


def part_named(name: str) -> TargetDef:
    """Return a registered part.

    Raises
    ------
    InputError
        When there is none of this name.
    """
    known = {part.name: part for part in (*PARTS, *registry().targets())}
    if name not in known:
        raise InputError(f"part {name!r} is unknown", hint=f"choose one of: {', '.join(known)}")
    return known[name]


def is_full(cells: Mapping[str, int], part: TargetDef) -> bool:
    """Whether a netlist fills so much of a part that it is spread over all of it."""
    return max(cells["comb"] / part.lut, cells["ff"] / part.ff) > _FULL
