"""A board: its part, its platform of Amaranth with the resource ``uart`` 0, and its name for openFPGALoader.

The part is of a family that is known, with transceivers; its tools are those of the family.
"""

from __future__ import annotations

from tg2hdl_ir import BoardDef, TargetDef, hookimpl


@hookimpl
def tg2hdl_targets() -> list[TargetDef]:
    """For ``--part ecp5-um-45k``; the options are for nextpnr-ecp5."""
    options = (("device", "um-45k"), ("package", "CABGA381"))
    return [TargetDef("ecp5-um-45k", "ecp5", "Lattice LFE5UM-45F", 43848, 43848, 72, 108, 18432, options)]


@hookimpl
def tg2hdl_boards() -> list[BoardDef]:
    """For ``tg2hdl build --board versa-ecp5``; the platform is imported when a design is built."""
    platform = "amaranth_boards.versa_ecp5:VersaECP5Platform"
    return [BoardDef("versa-ecp5", "Lattice Versa ECP5, LFE5UM-45F", "ecp5-um-45k", platform, "ecp5_evn")]
