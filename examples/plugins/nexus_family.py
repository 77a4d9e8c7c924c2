"""An FPGA family with its tools: Lattice Nexus, whose cells Yosys counts; there is no place and route in wheels."""

from __future__ import annotations

from tg2hdl_ir import FamilyDef, TargetDef, hookimpl
from tg2hdl_synth.families import Family
from tg2hdl_synth.netlist import Cost, Netlist, yosys_netlist
from tg2hdl_synth.rtlil import read_rtlil, top_name
from tg2hdl_synth.tools import Progress, tool_versions

COSTS = {
    "LUT4": ("comb", 1),
    "WIDEFN9": ("comb", 2),
    "CCU2": ("comb", 2),
    "DPR16X4": ("comb", 4),
    "PDPSC16K": ("bram", 1),
    "PDP16K": ("bram", 1),
    "DP16K": ("bram", 1),
}


class Nexus(Family):
    """Cells by Yosys; `place` is left out, so that asking for it is an error that says so."""

    def versions(self) -> dict[str, str]:
        """Tools and their versions, for the result."""
        return tool_versions("yosys")

    def synthesize(self, rtlil: str, part: TargetDef, *, pack_registers: bool, progress: Progress) -> Netlist:
        """Run Yosys' script for the family."""
        command = f"synth_nexus -nodsp -top {top_name(read_rtlil(rtlil))}"
        return yosys_netlist(rtlil, [command], cost, progress=progress)


def cost(cell: str) -> Cost:
    """Kind of a cell and its number."""
    return ("ff", 1) if cell.startswith("FD1P3") else COSTS.get(cell, ("comb", 0))


@hookimpl
def tg2hdl_families() -> list[FamilyDef]:
    """Figures for planning (logic levels in a cycle, cycles of a memory and of a product), parts and tools."""
    part = TargetDef(
        "nexus-40k", "nexus", "Lattice LIFCL-40", lut=32256, ff=32256, dsp=0, bram=84, bram_bits=18432
    )
    return [
        FamilyDef(
            "nexus",
            "Lattice Nexus",
            stage_levels=3,
            read_latency=2,
            product_latency=3,
            parts=(part,),
            tools=Nexus,
        )
    ]
