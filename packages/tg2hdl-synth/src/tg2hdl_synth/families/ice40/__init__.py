"""Lattice iCE40: figures, parts and boards."""

from __future__ import annotations

from tg2hdl_ir import BoardDef, FamilyDef, MemoryFigures, TargetDef

__all__ = ["ICE40"]


def _part(device: str, package: str, part: str, lut: int, dsp: int, bram: int) -> TargetDef:
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


ICE40 = FamilyDef(
    "ice40",
    "Lattice iCE40",
    stage_levels=4,
    read_latency=2,
    product_latency=2,
    memory=MemoryFigures(
        block_bits=4096,
        block_words=2048,
        block_modes=((16, 256), (8, 512), (4, 1024), (2, 2048)),
        whole_depth=False,
        byte_bits=1,
        dual_bits=0,
        packed_bits=0,
    ),
    parts=(
        _part("up5k", "sg48", "iCE40UP5K", 5280, 8, 30),
        _part("hx8k", "ct256", "iCE40HX8K", 7680, 0, 32),
        _part("hx1k", "tq144", "iCE40HX1K", 1280, 0, 16),
    ),
    boards=(
        BoardDef(
            "icebreaker-up5k",
            "1BitSquared iCEBreaker, iCE40UP5K",
            "ice40-up5k",
            "amaranth_boards.icebreaker:ICEBreakerPlatform",
            "ice40_generic",
            24.0,
            baud=4_000_000,  # a bit takes 8 cycles, and the UP5K seldom reaches 48 MHz
            memories=("flash",),  # the FPGA has the SPI of the bridge only with other jumpers
        ),
        BoardDef(
            "icesugar",
            "MuseLab iCESugar, iCE40UP5K",
            "ice40-up5k",
            "amaranth_boards.icesugar:ICESugarPlatform",
            "",
            24.0,
            baud=921_600,
            memories=("flash",),
            note="copy the bitstream to the drive that the board shows, or use icesprog",
        ),
    ),
    tools="tg2hdl_synth.families.ice40.tools:Ice40",
)
