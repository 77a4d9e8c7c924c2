"""Tools of Lattice iCE40: ports are on a chain of registers, because nextpnr-ice40 needs a pin per port."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from amaranth import Const, Instance, Module, Signal

from tg2hdl_ir import TargetDef
from tg2hdl_synth.families.answers import PllSettings
from tg2hdl_synth.families.base import Family
from tg2hdl_synth.netlist import Cost, Netlist, free_collisions, yosys_netlist
from tg2hdl_synth.place import PlaceAndRoute, changed, fastest
from tg2hdl_synth.port_chain import cell, chain_ports, chained_bits
from tg2hdl_synth.rtlil import read_rtlil, top_name
from tg2hdl_synth.tools import Progress, tool_versions, yosys_share, yowasp

__all__ = ["Ice40", "join_ports"]

_COSTS = {"SB_LUT4": ("comb", 1), "SB_MAC16": ("dsp", 1), "SB_RAM40_4K": ("bram", 1)}


_DIES = {
    **dict.fromkeys(("iCE40UP5K", "iCE40UP3K"), "ice40-up5k"),
    **dict.fromkeys(("iCE40HX8K", "iCE40LP8K", "iCE40HX4K", "iCE40LP4K"), "ice40-hx8k"),
    **dict.fromkeys(("iCE40HX1K", "iCE40LP1K"), "ice40-hx1k"),
}
"""Parts by the devices of Amaranth's platforms."""
_PLL_PADS = {("SG48", "35")}
"""Packages and pins of clocks that a PLL has in its pad."""
_NO_LUT_RAM = "setattr -unset ram_style a:ram_style=distributed"
_MODULE = re.compile(r"(?:^\(\*[^\n]*\*\)\s*\n)*^module (\w+).*?^endmodule\s*?\n", re.MULTILINE | re.DOTALL)


class Ice40(Family):
    """Yosys and nextpnr-ice40."""

    cells = {"comb": "ICESTORM_LC", "dsp": "ICESTORM_DSP", "bram": "ICESTORM_RAM"}
    board_tools = (yowasp("yosys"), yowasp("nextpnr-ice40"), yowasp("icepack", "nextpnr-ice40"))
    suffix = "bin"

    def versions(self) -> dict[str, str]:
        """Versions of the wheels."""
        return tool_versions("yosys", "nextpnr-ice40")

    def synthesize(
        self, rtlil: str, part: TargetDef, *, pack_registers: bool | str = False, progress: Progress
    ) -> Netlist:
        """Map a design; there is no LUT RAM."""
        rtlil = free_collisions(rtlil)
        up5k = dict(part.options).get("device") == "up5k"
        device = "-dsp -device u" if up5k else "-device hx"
        commands = [
            _NO_LUT_RAM,
            f"synth_ice40 -no-rw-check -top {top_name(read_rtlil(rtlil))} {device}",
        ]
        return yosys_netlist(rtlil, commands, _cost, progress=progress)

    def place(
        self,
        netlist: Netlist,
        part: TargetDef,
        *,
        speed: int,
        seed: int,
        frequency: float,
        progress: Progress,
    ) -> PlaceAndRoute:
        """Place and route with nextpnr's default placer."""
        options = dict(part.options)
        arguments = [f"--{options['device']}", "--package", options["package"], "--pcf-allow-unconstrained"]
        text = changed((netlist.folder / "netlist.json").read_text(), join_ports)
        return fastest("nextpnr-ice40", ("heap",), arguments, text, seed, frequency, progress)

    def notes(self, netlist: Netlist, part: TargetDef, rtlil: str) -> tuple[str, ...]:
        """The cells of the chain of the ports."""
        count = chained_bits(json.loads((netlist.folder / "netlist.json").read_text()))
        return (f"{count} logic cells of the total join the ports to two pins by a chain of registers",)

    def simulation_models(self, module: dict[str, Any], folder: Path) -> tuple[str, str]:
        """Models of yosys for the cells in use only, as yosys takes a minute to read the largest RAM."""
        kinds = {cell["type"] for cell in module["cells"].values()}
        text = (yosys_share() / "ice40" / "cells_sim.v").read_text()
        text = _MODULE.sub(lambda match: match[0] if match[1] in kinds else "", text)
        (folder / "cells.v").write_text(text)
        return "cells.v", ""

    def part_of(self, platform: Any) -> str | None:
        """The part with the same die."""
        return _DIES.get(str(getattr(platform, "device", "")))

    def plls(self, source: float, wanted: float) -> Iterator[PllSettings]:
        """fout = fin * (DIVF + 1) / 2^DIVQ, with a VCO of 533 to 1,066 MHz."""
        for divq in range(1, 7):
            for divf in range(min(128, int(wanted * 2**divq / source + 1e-9))):
                vco = source * (divf + 1)
                if 533 <= vco <= 1066:
                    yield PllSettings(vco / 2**divq, (("DIVR", 0), ("DIVF", divf), ("DIVQ", divq)))

    def add_pll(self, m: Module, platform: Any, settings: PllSettings, clock: Signal, locked: Signal) -> None:
        """Add a PLL in the pad of the clock where that has one."""
        if (platform.package, *platform.lookup(platform.default_clk).ios[0].names) in _PLL_PADS:
            kind, port = "SB_PLL40_PAD", "PACKAGEPIN"
            reference = platform.request(platform.default_clk, dir="-").io
        else:
            kind, port, reference = "SB_PLL40_CORE", "REFERENCECLK", self.clock_input(m, platform)
        source = platform.default_clk_frequency / 1e6
        filter_range = 1 + sum(source >= limit for limit in (17, 26, 44, 66, 101))
        m.submodules.pll = Instance(
            kind,
            ("i", port, reference),
            *(
                ("p", name, Const(value, width))
                for (name, value), width in zip(settings.values, (4, 7, 3), strict=True)
            ),
            p_FEEDBACK_PATH="SIMPLE",
            p_PLLOUT_SELECT="GENCLK",
            p_FILTER_RANGE=Const(filter_range, 3),
            i_RESETB=Const(1),
            i_BYPASS=Const(0),
            o_PLLOUTGLOBAL=clock,
            o_LOCK=locked,
        )

    def build_options(self, part: TargetDef, frequency: float) -> dict[str, str]:
        """There is no LUT RAM; multipliers are used where the part has some."""
        dsp = " -dsp -device u" if part.dsp else ""
        return {"synth_opts": f"-no-rw-check{dsp}", "script_after_read": _NO_LUT_RAM}

    def counts(self, placed: Mapping[str, Any]) -> dict[str, int]:
        """Count a cell; a logic cell holds a LUT, a flip-flop, or both."""
        return super().counts(placed) | {"ff": int(str(placed["parameters"].get("DFF_ENABLE", 0)), 2)}


def _cost(kind: str) -> Cost:
    return ("ff", 1) if kind.startswith("SB_DFF") else _COSTS.get(kind, ("comb", 0))


def join_ports(netlist: dict[str, Any]) -> None:
    """Connect all ports to two pins by a chain of registers; changes a netlist of yosys' JSON in place."""
    chain_ports(netlist, _register, _mix)


def _register(clock: int, data: int, output: int) -> dict[str, Any]:
    return cell("SB_DFF", {}, {"C": clock, "D": data}, {"Q": output})


def _mix(a: int, b: int, output: int) -> dict[str, Any]:
    xor = f"{0x6666:016b}"
    return cell("SB_LUT4", {"LUT_INIT": xor}, {"I0": a, "I1": b, "I2": "0", "I3": "0"}, {"O": output})
