"""Tools of Lattice ECP5: deep memories in slices, soft products, two placers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from amaranth import Const, Instance, Signal, Value
from amaranth import Module as Hardware

from tg2hdl_ir import TargetDef
from tg2hdl_synth.families.answers import Estimate, PllSettings
from tg2hdl_synth.families.base import Family
from tg2hdl_synth.families.ecp5.cell_models import bind_models
from tg2hdl_synth.families.ecp5.estimate import ERRORS, estimated
from tg2hdl_synth.families.ecp5.hard_registers import absorb_registers
from tg2hdl_synth.families.ecp5.inverting_adders import with_inverting_adders
from tg2hdl_synth.families.ecp5.memory_shapes import SlicedMemory, sliced_library, sliced_memories
from tg2hdl_synth.families.ecp5.register_copies import copy_registers, keep_feedback_close
from tg2hdl_synth.families.ecp5.soft_pipelines import SOFT_PRODUCT, with_soft_products
from tg2hdl_synth.flat_netlist import top_module
from tg2hdl_synth.floorplan import Floorplan, anchor, sites
from tg2hdl_synth.netlist import Cost, Netlist, free_collisions, yosys_netlist
from tg2hdl_synth.place import FREQUENCY, PlaceAndRoute, changed, fastest
from tg2hdl_synth.rtlil import Module, read_rtlil, top_name
from tg2hdl_synth.soft_multipliers import soft_products
from tg2hdl_synth.tools import Progress, tool_versions, yowasp

__all__ = ["Ecp5", "pll", "plls", "second_output", "suitable_placers"]

_FULL = 0.5
"""Share of the LUTs or flip-flops above which a placement by ``heap`` may be unroutable."""
_COSTS = {
    "LUT4": ("comb", 1),
    "CCU2C": ("comb", 2),
    "TRELLIS_DPR16X4": ("comb", 4),
    "TRELLIS_FF": ("ff", 1),
    "MULT18X18D": ("dsp", 1),
    "DP16KD": ("bram", 1),
}
_MANY_WIDE = 0.02
"""Multiplexers that join two LUTs, as a share of a part's LUTs, above which a design that fills the part is mapped
without them.  The placer puts them far from their output register, whereas a LUT shares a slice with it."""

_MANY_CELLS, _MANY_WITH_FLOORPLAN = 60_000, 40_000
"""LUTs and flip-flops above which nextpnr's ``router2`` is taken: ``router1`` takes longer than the placer there.  A
floorplan says that a design needs many wires."""

_ROUTER = {"router2/currCongWeightMult": "0.5"}
"""By how much a wire with two nets costs more in each round.  With nextpnr's 2.0 the tensor processor with 16 lanes
comes near to an end and then gets worse: soon nothing else counts, and nets change places over and over."""


_REGISTERS_IN_PADS = """
select -set pads c:memory_pins.* t:TRELLIS_IO %i
select -set outputs @pads %ci1:+TRELLIS_IO[I] w:* %i %ci1:+TRELLIS_FF[Q] t:TRELLIS_FF %i
select -set inputs @pads %co1:+TRELLIS_IO[O] w:* %i %co1:+TRELLIS_FF[DI] t:TRELLIS_FF %i
setattr -set syn_useioff 1 @outputs @inputs
"""


class Ecp5(Family):
    """Yosys and nextpnr-ecp5."""

    speeds = (6, 7, 8)
    packs_registers = True
    takes_floorplan = True
    cells = {"comb": "TRELLIS_COMB", "ff": "TRELLIS_FF", "dsp": "MULT18X18D", "bram": "DP16KD"}
    estimate_errors = ERRORS
    makes_clocks = True
    has_ddr_pads = True
    board_tools = (yowasp("yosys"), yowasp("nextpnr-ecp5"), yowasp("ecppack", "nextpnr-ecp5"))
    registers_in_pads = _REGISTERS_IN_PADS

    def estimate(
        self, plans: Sequence[Any], rtlil: str, part: TargetDef, *, pack_registers: bool
    ) -> Estimate:
        """Cells and Fmax on speed grade 6."""
        return estimated(plans, rtlil, part.dsp, pack_registers)

    def versions(self) -> dict[str, str]:
        """Versions of the wheels."""
        return tool_versions("yosys", "nextpnr-ecp5")

    def synthesize(
        self,
        rtlil: str,
        part: TargetDef,
        *,
        pack_registers: bool | str = False,
        progress: Progress,
    ) -> Netlist:
        """Map a design; deep memories of the top are cut into slices without a multiplexer, if the part has so many."""
        rtlil = with_inverting_adders(free_collisions(rtlil))
        rtlil = with_soft_products(rtlil, soft_products(read_rtlil(rtlil), part.dsp))
        modules = read_rtlil(rtlil)
        deep = sliced_memories(modules[top_name(modules)], halves=bool(pack_registers))
        if sum(_blocks(memory) for memory in deep) > part.bram:
            deep = [memory for memory in deep if not memory.written]

        def synthesized(*, wide: bool) -> Netlist:
            commands, libraries = _commands(modules, deep, bool(pack_registers), wide)
            after = _absorb_wide if pack_registers == "wide" else _absorb if pack_registers else None
            return yosys_netlist(rtlil, commands, _cost, libraries=libraries, after=after, progress=progress)

        netlist = synthesized(wide=True)
        many = _wide_multiplexers(netlist.folder) > _MANY_WIDE * part.lut
        return synthesized(wide=False) if many and is_full(netlist.total, part) else netlist

    def place(
        self,
        netlist: Netlist,
        part: TargetDef,
        *,
        speed: int,
        seed: int,
        frequency: float,
        progress: Progress,
        floorplan: Floorplan | None = None,
    ) -> PlaceAndRoute:
        """Place and route with every placer that suits; the fastest result is kept."""
        options = dict(part.options)
        arguments = [f"--{options['device']}", "--package", options["package"]]
        arguments += ["--speed", str(speed), "--out-of-context"]
        text = (netlist.folder / "netlist.json").read_text()
        if is_full(netlist.total, part) and not floorplan:
            text = changed(text, copy_registers)
        text = changed(text, keep_feedback_close)
        if floorplan:
            counts = {"DP16KD": part.bram, "MULT18X18D": part.dsp}
            places = sites(options["device"], options["package"], counts)
            cells = json.loads(text)
            for pattern in anchor(cells, floorplan, places):
                progress(f"floorplan: no block RAM or multiplier is named {pattern}")
            text = json.dumps(cells)
        many = _MANY_WITH_FLOORPLAN if floorplan else _MANY_CELLS
        if netlist.total["comb"] + netlist.total["ff"] > many:
            arguments += ["--router", "router2"]
            # Lays nets again that miss the clock: without end, if it is out of reach.
            arguments += ["--tmg-ripup"] if frequency < FREQUENCY else []
            text = changed(text, _set_router)
        placers = suitable_placers(netlist.total, part)
        if floorplan and "heap" in placers:
            placers = ("heap",)  # the placer for which floorplans are made
        return fastest("nextpnr-ecp5", placers, arguments, text, seed, frequency, progress)

    def notes(self, netlist: Netlist, part: TargetDef, rtlil: str) -> tuple[str, ...]:
        """Products that are made of LUTs."""
        soft = len(soft_products(read_rtlil(rtlil), part.dsp))
        return (f"{soft} products are made of LUTs: the part has {part.dsp} multipliers",) if soft else ()

    def simulation_models(self, module: dict[str, Any], folder: Path) -> tuple[str, str]:
        """Yosys' models, and ours of block RAMs and multipliers."""
        return "+/lattice/cells_sim_ecp5.v", bind_models(module)

    def part_of(self, platform: Any) -> str | None:
        """The part of the same size; the tools use all of the 25k in a 12k."""
        match = re.fullmatch(r"LFE5U\w*-(\d\d)F", str(getattr(platform, "device", "")))
        size = match and {"12": 25, "25": 25, "45": 45, "85": 85}.get(match[1])
        return f"ecp5-{size}k" if size else None

    def plls(self, source: float, wanted: float) -> Iterator[PllSettings]:
        """Feedback is from the output of the PLL."""
        return plls(source, wanted)

    def add_pll(
        self, m: Hardware, platform: Any, settings: PllSettings, clock: Signal, locked: Signal
    ) -> None:
        """Add an EHXPLLL behind the clock's pin."""
        source = platform.default_clk_frequency / 1e6
        m.submodules.pll = pll(source, self.clock_input(m, platform), settings, clock, locked)

    def add_clock(self, m: Hardware, platform: Any, frequency: float, clock: Signal, locked: Signal) -> None:
        """Add an EHXPLLL, whose second output it is, unless it is the clock's pin."""
        source = platform.default_clk_frequency / 1e6
        settings = second_output(source, frequency)
        if source == frequency or settings is None:
            super().add_clock(m, platform, frequency, clock, locked)
            return
        m.submodules += pll(source, self.clock_input(m, platform), settings, Signal(), locked, clock)


def is_full(cells: Mapping[str, int], part: TargetDef) -> bool:
    """Whether a netlist fills so much of a part that it is spread over all of it."""
    return max(cells["comb"] / part.lut, cells["ff"] / part.ff) > _FULL


def suitable_placers(cells: Mapping[str, int], part: TargetDef) -> tuple[str, ...]:
    """Placers of nextpnr for a netlist.

    ``static`` shortens all nets, ``heap`` the critical ones; which placer is faster depends on the design.

    Parameters
    ----------
    cells : mapping of str to int
        Cells of the netlist by type.
    part : TargetDef
    """
    return ("static",) if is_full(cells, part) else ("heap", "static")


def _set_router(netlist: dict[str, Any]) -> None:
    top_module(netlist).setdefault("settings", {}).update(_ROUTER)


def _cost(cell: str) -> Cost:
    return _COSTS.get(cell, ("comb", 0))


def _wide_multiplexers(folder: Path) -> int:
    modules = json.loads((folder / "stat.json").read_text())["modules"].values()
    return sum(module["num_cells_by_type"].get("PFUMX", 0) for module in modules)


def _blocks(memory: SlicedMemory) -> int:
    return -(-memory.width // memory.slice_width) * -(-memory.depth // 16384)


def _commands(
    modules: dict[str, Module], deep: list[SlicedMemory], packing: bool, wide: bool
) -> tuple[list[str], dict[str, str]]:
    top = top_name(modules)
    lines, libraries = [], {}
    if any(cell.kind == SOFT_PRODUCT for module in modules.values() for cell in module.cells):
        # Before the first command that needs a module for them.
        lines += ["proc", "techmap -map soft_multiplier.v"]
        library = files("tg2hdl_synth.families.ecp5") / "soft_multiplier.v"
        libraries["soft_multiplier.v"] = library.read_text()
    command = f"synth_ecp5 -no-rw-check{'' if wide else ' -nowidelut'} -top {top}"
    lines += [f"{command} -run begin:coarse", f"{command} -run coarse:map_ram"]
    for width in sorted({memory.slice_width for memory in deep}):
        libraries[f"slices{width}.txt"] = sliced_library(width)
        cells = " ".join(f"{m.module}/{m.name}" for m in deep if m.slice_width == width)
        lines.append(f"memory_libmap -lib slices{width}.txt {cells}")
    memories = [memory for module in modules.values() for memory in module.memories.values()]
    if packing and any("narrow_ports" in memory.attributes for memory in memories):
        libraries["slices18.txt"] = sliced_library(18)
        lines.append("memory_libmap -lib slices18.txt a:narrow_ports")
    if any(name.startswith("slices") for name in libraries):
        lines.append("techmap -map +/lattice/brams_map_16kd.v")
    lines.append(f"{command} -run map_ram:")
    return lines, libraries


def _absorb_wide(folder: Path) -> None:
    _absorb(folder, wide=True)


def _absorb(folder: Path, *, wide: bool = False) -> None:
    path = folder / "netlist.json"
    netlist = json.loads(path.read_text())
    counts = absorb_registers(netlist, wide=wide)
    path.write_text(json.dumps(netlist))
    (folder / "absorbed.json").write_text(json.dumps(counts))


def plls(source: float, wanted: float) -> Iterator[PllSettings]:
    """Return the settings for clocks up to the wanted one (MHz).

    Parameters
    ----------
    source : float
        Clock of the board (MHz).
    wanted : float
        Highest frequency (MHz).
    """
    for divider in range(1, min(128, int(source / 3.125)) + 1):
        for feedback in range(1, min(80, int(wanted * divider / source + 1e-9)) + 1):
            frequency = source * feedback / divider
            output = next((n for n in range(1, 129) if 400 <= frequency * n <= 800), None)
            if output:
                values = (("CLKI_DIV", divider), ("CLKFB_DIV", feedback), ("CLKOP_DIV", output))
                yield PllSettings(frequency, values)


def second_output(source: float, frequency: float) -> PllSettings | None:
    """Return settings whose second output has exactly a frequency (MHz), from a source (MHz); None without any.

    Its divider divides the oscillator of the PLL, so that more frequencies are reached than through the feedback.

    Parameters
    ----------
    source : float
        Clock of the board (MHz).
    frequency : float
        Of the second output (MHz).
    """
    for divider in range(1, min(128, int(source / 3.125)) + 1):
        for second in range(1, 129):
            oscillator = frequency * second
            # The oscillator is the first output, which is the feedback, times its divider.
            factor = oscillator * divider / source
            for output in range(1, 129):
                feedback = round(factor / output)
                exact = 1 <= feedback <= 80 and feedback * output * source == oscillator * divider
                if 400 <= oscillator <= 800 and oscillator <= 400 * output and exact:
                    values = (("CLKI_DIV", divider), ("CLKFB_DIV", feedback), ("CLKOP_DIV", output))
                    return PllSettings(oscillator / output, (*values, ("CLKOS_DIV", second)))
    return None


def pll(
    source: float,
    reference: Value,
    settings: PllSettings,
    clock: Signal,
    locked: Signal,
    second: Signal | None = None,
) -> Instance:
    """Return the PLL; `source` is the frequency of its reference (MHz).

    Parameters
    ----------
    source : float
        Frequency of the reference (MHz).
    reference : Value
        Clock input.
    settings : PllSettings
        From `plls`.
    clock, locked : Signal
        Driven by the PLL.
    second : Signal, optional
        Driven by its second output.
    """
    values = dict(settings.values)
    another: dict[str, Any] = {}
    if second is not None:
        phase = values["CLKOS_DIV"] - 1  # as `ecppll` does, which aligns the output
        another = {
            "p_CLKOS_ENABLE": "ENABLED",
            "p_CLKOS_CPHASE": phase,
            "p_CLKOS_FPHASE": 0,
            "o_CLKOS": second,
        }
    return Instance(
        "EHXPLLL",
        *(("p", name, value) for name, value in values.items()),
        p_CLKOP_ENABLE="ENABLED",
        p_CLKOP_CPHASE=values["CLKOP_DIV"] // 2 - 1 if values["CLKOP_DIV"] > 1 else 0,
        p_CLKOP_FPHASE=0,
        p_FEEDBK_PATH="CLKOP",
        p_PLLRST_ENA="DISABLED",
        p_INTFB_WAKE="DISABLED",
        p_STDBY_ENABLE="DISABLED",
        p_DPHASE_SOURCE="DISABLED",
        a_FREQUENCY_PIN_CLKI=str(source),
        a_FREQUENCY_PIN_CLKOP=str(settings.frequency),
        a_ICP_CURRENT="12",
        a_LPF_RESISTOR="8",
        a_MFG_ENABLE_FILTEROPAMP="1",
        a_MFG_GMCREF_SEL="2",
        i_CLKI=reference,
        i_CLKFB=clock,
        i_RST=Const(0),
        i_STDBY=Const(0),
        i_PHASESEL0=Const(0),
        i_PHASESEL1=Const(0),
        i_PHASEDIR=Const(0),
        i_PHASESTEP=Const(0),
        i_PHASELOADREG=Const(0),
        i_PLLWAKESYNC=Const(0),
        i_ENCLKOP=Const(0),
        o_CLKOP=clock,
        o_LOCK=locked,
        **another,
    )
