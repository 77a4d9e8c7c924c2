"""A board: its part, its platform of Amaranth with the resource ``uart`` 0, and its name for openFPGALoader."""

from __future__ import annotations

from tg2hdl_ir.plugins.descriptors import BoardDef
from tg2hdl_ir.plugins.hookspecs import hookimpl


@hookimpl
def tg2hdl_boards() -> list[BoardDef]:
    """For ``tg2hdl build --board versa-ecp5``; the platform is imported when a design is built."""
    platform = "amaranth_boards.versa_ecp5:VersaECP5Platform"
    return [BoardDef("versa-ecp5", "Lattice Versa ECP5, LFE5UM-45F", "ecp5-45k", platform, "ecp5_evn")]
