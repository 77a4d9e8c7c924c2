"""Lattice iCE40: ports on a chain of registers, because nextpnr-ice40 needs a pin per port."""

from __future__ import annotations

import json

from tg2hdl_ir.plugins.descriptors import TargetDef
from tg2hdl_synth.flows.base import SynthesisFlow
from tg2hdl_synth.netlist import Cost, Netlist, free_collisions, yosys_netlist
from tg2hdl_synth.place import PlaceAndRoute, changed, fastest
from tg2hdl_synth.port_chain import chain_ports, chained_bits
from tg2hdl_synth.rtlil import read_rtlil, top_name
from tg2hdl_synth.tools import Progress, tool_versions

__all__ = ["Ice40Flow"]

_COSTS = {"SB_LUT4": ("comb", 1), "SB_MAC16": ("dsp", 1), "SB_RAM40_4K": ("bram", 1)}


class Ice40Flow(SynthesisFlow):
    """Yosys and nextpnr-ice40."""

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
            "setattr -unset ram_style a:ram_style=distributed",
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
        text = changed((netlist.folder / "netlist.json").read_text(), chain_ports)
        return fastest("nextpnr-ice40", ("heap",), arguments, text, seed, frequency, progress)

    def notes(self, netlist: Netlist, part: TargetDef, rtlil: str) -> tuple[str, ...]:
        """What the chain of the ports takes."""
        count = chained_bits(json.loads((netlist.folder / "netlist.json").read_text()))
        return (f"{count} logic cells of the total join the ports to two pins by a chain of registers",)


def _cost(cell: str) -> Cost:
    return ("ff", 1) if cell.startswith("SB_DFF") else _COSTS.get(cell, ("comb", 0))
