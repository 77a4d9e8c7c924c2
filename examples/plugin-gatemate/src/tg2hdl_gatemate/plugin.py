"""The hook: one family with its figures, part and board; the tools are loaded when they are used."""

from __future__ import annotations

from tg2hdl_ir import BoardDef, FamilyDef, MemoryFigures, TargetDef, hookimpl

__all__ = ["tg2hdl_families"]

GATEMATE = FamilyDef(
    "gatemate",
    "Cologne Chip GateMate",
    stage_levels=4,
    read_latency=2,
    product_latency=2,
    memory=MemoryFigures(block_bits=20480, block_words=16384),
    parts=(
        TargetDef(
            "gatemate-a1",
            "gatemate",
            "Cologne Chip CCGM1A1",
            lut=40960,  # half of a CPE each
            ff=40960,
            dsp=0,  # products are made of CPEs
            bram=64,  # halves of block RAMs
            bram_bits=20480,
            options=(("device", "CCGM1A1"),),
        ),
    ),
    boards=(
        BoardDef(
            "gatemate-evb",
            "Olimex GateMateA1-EVB, CCGM1A1",
            "gatemate-a1",
            "tg2hdl_gatemate.platform:GateMateA1EVB",
            "olimex_gatemateevb",
            25.0,
        ),
    ),
    tools="tg2hdl_gatemate.tools:GateMate",
)


@hookimpl
def tg2hdl_families() -> list[FamilyDef]:
    """The family with all that belongs to it."""
    return [GATEMATE]
