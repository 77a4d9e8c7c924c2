"""The boards of this package; imports nothing heavy."""

from __future__ import annotations

from tg2hdl_ir.plugins.descriptors import BoardDef

__all__ = ["BOARDS"]


def _board(name: str, description: str, part: str, loader: str, clock: float = 100.0) -> BoardDef:
    platform = f"tg2hdl_synth.boards.platforms:{name.replace('-', '_')}"
    return BoardDef(name, description, part, platform, loader, clock)


BOARDS = (
    _board("ulx3s-12f", "Radiona ULX3S, LFE5U-12F (the tools use all of its 25k)", "ecp5-25k", "ulx3s"),
    _board("ulx3s-25f", "Radiona ULX3S, LFE5U-25F", "ecp5-25k", "ulx3s"),
    _board("ulx3s-45f", "Radiona ULX3S, LFE5U-45F", "ecp5-45k", "ulx3s"),
    _board("ulx3s-85f", "Radiona ULX3S, LFE5U-85F", "ecp5-85k", "ulx3s"),
    _board("ecpix5-45f", "LambdaConcept ECPIX-5, LFE5UM5G-45F", "ecp5-45k", "ecpix5"),
    _board("ecpix5-85f", "LambdaConcept ECPIX-5, LFE5UM5G-85F", "ecp5-85k", "ecpix5"),
    _board(
        "orangecrab-25f", "OrangeCrab r0.2, LFE5U-25F, serial line on pins 0 and 1", "ecp5-25k", "orangeCrab"
    ),
    _board(
        "orangecrab-85f", "OrangeCrab r0.2, LFE5U-85F, serial line on pins 0 and 1", "ecp5-85k", "orangeCrab"
    ),
    _board("colorlight-i5", "Colorlight i5 7.0 on its extension board", "ecp5-25k", "colorlight-i5"),
    _board("icebreaker-up5k", "1BitSquared iCEBreaker, iCE40UP5K", "ice40-up5k", "ice40_generic", 24.0),
    _board("tang-nano-9k", "Sipeed Tang Nano 9k, GW1NR-9C", "gw1nr-9c", "tangnano9k", 54.0),
    _board("tang-nano-20k", "Sipeed Tang Nano 20k, GW2AR-18C", "gw2ar-18c", "tangnano20k", 81.0),
)
