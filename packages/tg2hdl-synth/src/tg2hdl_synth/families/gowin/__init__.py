"""Gowin LittleBee and Arora: figures, parts and boards; they are placed and routed for their boards only."""

from __future__ import annotations

from tg2hdl_ir import BoardDef, FamilyDef, MemoryFigures, TargetDef

__all__ = ["GOWIN"]


def _part(name: str, description: str, lut: int, ff: int, dsp: int, bram: int) -> TargetDef:
    return TargetDef(name, "gowin", description, lut=lut, ff=ff, dsp=dsp, bram=bram, bram_bits=18432)


_OURS = "tg2hdl_synth.families.gowin.platforms"

GOWIN = FamilyDef(
    "gowin",
    "Gowin LittleBee and Arora",
    stage_levels=4,
    read_latency=2,
    product_latency=2,
    memory=MemoryFigures(whole_depth=False),
    parts=(
        _part("gw1nr-9c", "Gowin GW1NR-LV9QN88P", 8640, 6480, 20, 26),
        _part("gw2ar-18c", "Gowin GW2AR-LV18QN88", 20736, 15552, 48, 46),
    ),
    boards=(
        BoardDef(
            "tang-nano-9k",
            "Sipeed Tang Nano 9k, GW1NR-9C",
            "gw1nr-9c",
            f"{_OURS}:tang_nano_9k",
            "tangnano9k",
            54.0,
        ),
        BoardDef(
            "tang-nano-20k",
            "Sipeed Tang Nano 20k, GW2AR-18C",
            "gw2ar-18c",
            f"{_OURS}:tang_nano_20k",
            "tangnano20k",
            81.0,
        ),
        BoardDef(
            "tang-primer-20k",
            "Sipeed Tang Primer 20k on its dock, GW2A-18C",
            "gw2ar-18c",
            f"{_OURS}:tang_primer_20k",
            "tangprimer20k",
            81.0,
        ),
    ),
    tools="tg2hdl_synth.families.gowin.tools:Gowin",
)
