"""Lattice ECP5: figures, parts and boards."""

from __future__ import annotations

from tg2hdl_ir import BoardDef, FamilyDef, TargetDef

__all__ = ["ECP5"]


_OURS = "tg2hdl_synth.families.ecp5.platforms"


def _part(device: str, lut: int, dsp: int, bram: int) -> TargetDef:
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


def _board(
    name: str, size: int, description: str, platform: str, loader: str, baud: int = 2_000_000
) -> BoardDef:
    return BoardDef(name, description, f"ecp5-{size}k", platform, loader, baud=baud)


def _orangecrab(size: int) -> BoardDef:
    return BoardDef(
        f"orangecrab-{size}f",
        f"OrangeCrab r0.2, LFE5U-{size}F, serial line on pins 0 and 1",
        f"ecp5-{size}k",
        f"{_OURS}:orangecrab_{size}f",
        "orangeCrab",
        memories=("flash",),  # by the boot loader's DFU
        note="hold the button while you connect the cable, which starts the boot loader (DFU)",
    )


_ULX3S, _ECPIX5 = "amaranth_boards.ulx3s:ULX3S", "amaranth_boards.ecpix5:ECPIX5"
_FT231X, _FT2232H = 3_000_000, 12_000_000
"""Fastest rates of bridges."""

ECP5 = FamilyDef(
    "ecp5",
    "Lattice ECP5",
    stage_levels=2,
    read_latency=2,
    product_latency=4,
    parts=(_part("25k", 24288, 28, 56), _part("45k", 43848, 72, 108), _part("85k", 83640, 156, 208)),
    boards=(
        _board(
            "ulx3s-12f",
            25,
            "Radiona ULX3S, LFE5U-12F (the tools use all of its 25k)",
            f"{_ULX3S}_12F_Platform",
            "ulx3s",
            _FT231X,
        ),
        _board("ulx3s-25f", 25, "Radiona ULX3S, LFE5U-25F", f"{_ULX3S}_25F_Platform", "ulx3s", _FT231X),
        _board("ulx3s-45f", 45, "Radiona ULX3S, LFE5U-45F", f"{_ULX3S}_45F_Platform", "ulx3s", _FT231X),
        _board("ulx3s-85f", 85, "Radiona ULX3S, LFE5U-85F", f"{_ULX3S}_85F_Platform", "ulx3s", _FT231X),
        _board(
            "ecpix5-45f",
            45,
            "LambdaConcept ECPIX-5, LFE5UM5G-45F",
            f"{_ECPIX5}45Platform",
            "ecpix5",
            _FT2232H,
        ),
        _board(
            "ecpix5-85f",
            85,
            "LambdaConcept ECPIX-5, LFE5UM5G-85F",
            f"{_ECPIX5}85Platform",
            "ecpix5",
            _FT2232H,
        ),
        _orangecrab(25),
        _orangecrab(85),
        _board(
            "colorlight-i5",
            25,
            "Colorlight i5 7.0 on its extension board",
            f"{_OURS}:colorlight_i5",
            "colorlight-i5",
        ),
        _board(
            "icepi-zero",
            25,
            "Icepi Zero, LFE5U-25F",
            "amaranth_boards.icepi_zero:IcepiZero1_3Platform",
            "icepi-zero",
            _FT231X,
        ),
        _board(
            "ecp5-evn",
            85,
            "Lattice ECP5 Evaluation Board, LFE5UM5G-85F",
            "amaranth_boards.ecp5_5g_evn:ECP55GEVNPlatform",
            "ecp5_evn",
            _FT2232H,
        ),
        BoardDef(
            "icesugar-pro",
            "MuseLab iCESugar-Pro, LFE5U-25F",
            "ecp5-25k",
            "amaranth_boards.icesugar_pro:ICESugarProPlatform",
            "",
            baud=921_600,
            note="copy the bitstream to the drive that the board shows, or use icesprog",
        ),
    ),
    pack_registers=True,
    tools="tg2hdl_synth.families.ecp5.tools:Ecp5",
    estimator="tg2hdl_synth.fits:luts_and_clock",
)
