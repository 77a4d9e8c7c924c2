"""The tools of GateMate: Yosys, nextpnr-himbaechel-gatemate and gmpack, each from a wheel."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from amaranth import Const, Instance, Module, Signal

from tg2hdl_ir import TargetDef
from tg2hdl_synth.boards.pll import PllSettings
from tg2hdl_synth.families import Family
from tg2hdl_synth.flat_netlist import top_module
from tg2hdl_synth.netlist import Cost, Netlist, free_collisions, yosys_netlist
from tg2hdl_synth.place import PlaceAndRoute, changed, fastest
from tg2hdl_synth.port_chain import CHAIN, CLOCK, cell, chain_ports, chained_bits
from tg2hdl_synth.rtlil import read_rtlil, top_name
from tg2hdl_synth.tools import Progress, tool_versions, yowasp

__all__ = ["GateMate"]

NEXTPNR = yowasp("nextpnr-himbaechel-gatemate")
GMPACK = yowasp("gmpack", "nextpnr-himbaechel-gatemate")
NO_LUT_RAM = "setattr -unset ram_style a:ram_style=distributed"

WHOLE = "CPE_ADDF2?|CPE_MULT|CPE_MX4"
"""Cells of nextpnr that take both halves of a CPE."""
MODE = 2
"""Performance mode of nextpnr: economy, 1.0 V."""
COSTS = {
    "CC_ADDF": ("comb", 1),
    "CC_MX4": ("comb", 2),
    "CC_DFF": ("ff", 1),
    "CC_BRAM_20K": ("bram", 1),
    "CC_BRAM_40K": ("bram", 2),
}


class GateMate(Family):
    """Yosys and nextpnr, without pins; bitstreams for boards by gmpack."""

    cells = {"comb": f"CPE_LT|CPE_L2T[45]|{WHOLE}", "ff": "CPE_FF"}
    board_tools = (yowasp("yosys"), NEXTPNR, GMPACK)
    requirement = "tg2hdl-gatemate[tools]"

    def part_of(self, platform: Any) -> str | None:
        """The only part, for ``--board module:Class``."""
        return "gatemate-a1" if getattr(platform, "device", None) == "CCGM1A1" else None

    def versions(self) -> dict[str, str]:
        """Versions of the wheels."""
        return tool_versions("yosys", NEXTPNR)

    def synthesize(
        self, rtlil: str, part: TargetDef, *, pack_registers: bool | str, progress: Progress
    ) -> Netlist:
        """Map a design without pads; there is no LUT RAM."""
        rtlil = free_collisions(rtlil)
        top = top_name(read_rtlil(rtlil))
        command = f"synth_gatemate -luttree -nomx8 -noiopad -noclkbuf -top {top}"
        return with_products(yosys_netlist(rtlil, [NO_LUT_RAM, command, "autoname"], cost, progress=progress))

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
        """Place and route, with all ports on a chain of registers between two pads."""
        arguments = ["--device", dict(part.options)["device"], "--vopt", f"fpga_mode={MODE}"]
        arguments += ["--vopt", "allow-unconstrained"]
        text = changed((netlist.folder / "netlist.json").read_text(), join_ports)
        return fastest(NEXTPNR, ("heap",), arguments, text, seed, frequency, progress)

    def notes(self, netlist: Netlist, part: TargetDef, rtlil: str) -> tuple[str, ...]:
        """Say what the chain of the ports takes."""
        count = chained_bits(json.loads((netlist.folder / "netlist.json").read_text()))
        return (f"{count} flip-flops of the total join the ports to two pads by a chain",)

    def plls(self, source: float, wanted: float) -> Iterator[PllSettings]:
        """fout = fin * N / (2 * M), M even or 1, and fin * N in 500 to 1,000 MHz: the mode "economy"."""
        for n in range(int(500 / source) + 1, int(1000 / source) + 1):
            for m in (1, *range(2, 257, 2)):
                frequency = source * n / (2 * m)
                if frequency <= min(wanted + 1e-9, 312.5):
                    yield PllSettings(frequency, (("N", n), ("M", m)))

    def add_pll(self, m: Module, platform: Any, settings: PllSettings, clock: Signal, locked: Signal) -> None:
        """Add a CC_PLL, whose dividers nextpnr finds."""
        m.submodules.pll = Instance(
            "CC_PLL",
            p_REF_CLK=f"{platform.default_clk_frequency / 1e6:.6f}",
            p_OUT_CLK=f"{settings.frequency:.6f}",
            p_PERF_MD="ECONOMY",
            p_LOW_JITTER=1,
            i_CLK_REF=self.clock_input(m, platform),
            i_USR_CLK_REF=Const(0),
            i_CLK_FEEDBACK=Const(0),
            i_USR_LOCKED_STDY_RST=Const(0),
            o_CLK0=clock,
            o_USR_PLL_LOCKED=locked,
        )

    def counts(self, placed: Mapping[str, Any]) -> dict[str, int]:
        """Count halves of CPEs and of block RAMs; nextpnr's report does not tell whole block RAMs from halves."""
        kind = placed["type"]
        if kind == "RAM":
            return {"bram": 2 if placed["attributes"]["NEXTPNR_BEL"].endswith("/RAM") else 1}
        return {"comb": 2} if re.fullmatch(WHOLE, kind) else super().counts(placed)

    def build_options(self, part: TargetDef, frequency: float) -> dict[str, str]:
        """Aim at the clock."""
        return {"script_after_read": NO_LUT_RAM, "nextpnr_opts": f"--freq {frequency:g}"}

    def soft_products(self, rtlil: str, part: TargetDef) -> str:
        """Yosys makes all products of CPEs."""
        return ""


def cost(kind: str) -> Cost:
    """Kind of a cell of Yosys, and how many it counts as."""
    return ("comb", 1) if re.match(r"CC_(LUT|L2T|MX2)", kind) else COSTS.get(kind, ("comb", 0))


def with_products(netlist: Netlist) -> Netlist:
    """Add the halves of CPEs that the products take, whose number follows from the widths of their factors."""
    modules = {name: dict(counts) for name, counts in netlist.modules.items()}
    cells = top_module(json.loads((netlist.folder / "netlist.json").read_text()))["cells"]
    for name, placed in cells.items():
        if placed["type"] == "CC_MULT":
            a, b = (int(placed["parameters"][f"{factor}_WIDTH"], 2) for factor in "AB")
            owner = re.sub(r"^\$flatten\\", "", name).split(".")[0]
            modules[owner if owner in modules else ""]["comb"] += 2 * product_cells(a, b)
    return replace(netlist, modules=modules)


def product_cells(a: int, b: int) -> int:
    """CPEs of a product of factors of `a` and `b` bits."""
    return (-(-a // 2) + 1) * (-(-b // 2) + 1)


def join_ports(netlist: dict[str, Any]) -> None:
    """Connect all ports to two pads by a chain of registers, and the clock to a pad and a buffer."""
    chain_ports(netlist, _register, _mix)
    module = top_module(netlist)
    free = 1 + max(
        bit
        for c in module["cells"].values()
        for bits in c["connections"].values()
        for bit in bits
        if isinstance(bit, int)
    )
    for name, port in module["ports"].items():
        (bit,) = port["bits"]
        port["bits"] = [free]
        if name == CLOCK:
            module["cells"]["ports.clock"] = cell("CC_BUFG", {}, {"I": free + 1}, {"O": bit})
            bit = free + 1
        if name == CHAIN[1]:
            module["cells"][f"ports.{name}"] = cell("CC_OBUF", {}, {"A": bit}, {"O": free})
        else:
            module["cells"][f"ports.{name}"] = cell("CC_IBUF", {}, {"I": free}, {"Y": bit})
        free += 2


def _register(clock: int, data: int, output: int) -> dict[str, Any]:
    return cell("CC_DFF", {"INIT": "0"}, {"CLK": clock, "D": data, "EN": "1", "SR": "0"}, {"Q": output})


def _mix(a: int, b: int, output: int) -> dict[str, Any]:
    return cell("CC_LUT2", {"INIT": "0110"}, {"I0": a, "I1": b}, {"O": output})
