"""Gowin: bitstreams for boards by Yosys, nextpnr-himbaechel-gowin and Apicula."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from amaranth import Const, Instance, Module, Signal

from tg2hdl_ir import TargetDef
from tg2hdl_synth.families.answers import PllSettings
from tg2hdl_synth.families.base import Family
from tg2hdl_synth.tools import Tool, yowasp

__all__ = ["Gowin"]


class Gowin(Family):
    """Parts with open tools, on their boards."""

    cells = {
        "comb": "LUT[1-4]|ALU",
        "ff": "DFF.*",
        "dsp": "MULT.*",
        "bram": "SP|SDPB?|DPB?|p?ROM|BSRAM.*",
    }
    board_tools = (
        yowasp("yosys"),
        yowasp("nextpnr-himbaechel-gowin"),
        Tool("gowin_pack", "apycula", "apycula.gowin_pack", "main", "apycula", arguments=""),
    )
    requirement = "tg2hdl[gowin]"
    suffix = "fs"

    def part_of(self, platform: Any) -> str | None:
        """The part of the same series and size."""
        family = re.sub("^(GW1N|GW2A)R?-", r"\1R-", str(getattr(platform, "family", "")))
        return {"GW1NR-9C": "gw1nr-9c", "GW2AR-18C": "gw2ar-18c"}.get(family)

    def board_platform(self, platform: type, part: str) -> type:
        """Replace Amaranth's script, which calls a nextpnr that is no longer published."""
        from tg2hdl_synth.families.gowin.platforms import with_present_tools

        return with_present_tools(platform, part)

    def plls(self, source: float, wanted: float) -> Iterator[PllSettings]:
        """fout = fin * (FBDIV + 1) / (IDIV + 1), with a VCO of fout * ODIV in 500 to 1,200 MHz."""
        for divider in range(1, min(64, int(source / 3)) + 1):
            for feedback in range(1, min(64, int(wanted * divider / source + 1e-9)) + 1):
                frequency = source * feedback / divider
                output = next(
                    (n for n in (2, 4, 8, *range(16, 129, 16)) if 500 <= frequency * n <= 1200), None
                )
                if output:
                    values = (("IDIV_SEL", divider - 1), ("FBDIV_SEL", feedback - 1), ("ODIV_SEL", output))
                    yield PllSettings(frequency, values)

    def add_pll(self, m: Module, platform: Any, settings: PllSettings, clock: Signal, locked: Signal) -> None:
        """Add an rPLL behind the clock's pin."""
        reference = self.clock_input(m, platform)
        m.submodules.pll = Instance(
            "rPLL",
            *(("p", name, value) for name, value in settings.values),
            *(("p", f"DYN_{name}", "false") for name in ("IDIV_SEL", "FBDIV_SEL", "ODIV_SEL", "DA_EN")),
            *(("i", name, Const(0, 6)) for name in ("FBDSEL", "IDSEL", "ODSEL")),
            *(("i", name, Const(0, 4)) for name in ("PSDA", "DUTYDA", "FDLY")),
            p_FCLKIN=f"{platform.default_clk_frequency / 1e6:g}",
            p_DEVICE=platform.family,
            p_CLKFB_SEL="internal",
            i_CLKIN=reference,
            i_CLKFB=Const(0),
            i_RESET=Const(0),
            i_RESET_P=Const(0),
            o_CLKOUT=clock,
            o_LOCK=locked,
        )

    def build_options(self, part: TargetDef, frequency: float) -> dict[str, str]:
        """Aim at the clock, which Amaranth's script does not tell nextpnr."""
        return super().build_options(part, frequency) | {"nextpnr_opts": f"--freq {frequency:g}"}

    def multipliers(self, part: TargetDef, *, narrow: bool) -> int:
        """Two products of at most 9 bits for one of 18."""
        return 2 * part.dsp if narrow else part.dsp
