"""The tools of an FPGA family: estimate, synthesis, place and route, and bitstreams for boards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tg2hdl_ir import InputError, TargetDef, Tg2hdlError, ToolMissingError, registry
from tg2hdl_synth.families.answers import Estimate, PllSettings
from tg2hdl_synth.netlist import KINDS, Netlist
from tg2hdl_synth.place import PlaceAndRoute
from tg2hdl_synth.rtlil import read_rtlil
from tg2hdl_synth.soft_multipliers import products, soft_products
from tg2hdl_synth.tools import Progress, Tool

if TYPE_CHECKING:
    from amaranth import Module, Signal, Value

__all__ = ["Family", "tools_of"]


class Family:
    """Tools of an FPGA family, made by the factory of its `FamilyDef`; a family overrides the tools that it has.

    Attributes
    ----------
    speeds : tuple of int
        Speed grades of the parts; empty where there are none.
    packs_registers : bool
        Whether `synthesize` moves registers into block RAMs and multipliers when it is asked to.
    takes_floorplan : bool
        Whether `place` also takes the keyword `floorplan` (`tg2hdl_synth.floorplan`).
    cells : mapping of str to str
        Regular expressions for the types of cells in nextpnr's reports and netlists, by the kinds of
        `tg2hdl_synth.netlist.KINDS`.  A kind that is left out is counted before place and route only.
    estimate_errors : mapping of str to float
        Median relative errors of `estimate`: ``lut``, ``ff``, ``fmax``.
    makes_clocks : bool
        Whether `add_clock` makes another clock than the default one of the platform.
    has_ddr_pads : bool
        Whether Amaranth's ``io.DDRBuffer`` is made of pads of the family.
    board_tools : tuple of Tool
        Tools that the scripts of Amaranth's platforms call to make a bitstream.
    requirement : str
        For pip: a distribution that brings `board_tools`, perhaps with an extra.
    suffix : str
        Of the bitstream's file.
    registers_in_pads : str
        Commands of Yosys after synthesis that move registers at the pins of ``memory_pins`` into the pads.
    """

    speeds: tuple[int, ...] = ()
    packs_registers: bool = False
    takes_floorplan: bool = False
    cells: Mapping[str, str] = {}
    estimate_errors: Mapping[str, float] = {}
    makes_clocks: bool = False
    has_ddr_pads: bool = False
    board_tools: tuple[Tool, ...] = ()
    requirement: str = "tg2hdl[boards]"
    suffix: str = "bit"
    registers_in_pads: str = ""

    # Before synthesis

    def estimate(
        self, plans: Sequence[Any], rtlil: str, part: TargetDef, *, pack_registers: bool
    ) -> Estimate | None:
        """Cells and Fmax of a design with these plans, before synthesis; None where there is no estimate.

        Parameters
        ----------
        plans : sequence of object
            By kernel.
        rtlil : str
            The design.
        part : TargetDef
        pack_registers : bool
            Whether registers are moved into block RAMs.
        """
        return None

    # Synthesis, place and route

    def versions(self) -> dict[str, str]:
        """Versions of the tools of `synthesize` and `place` by name.

        Raises
        ------
        ToolMissingError
            When one is not installed.
        """
        return {}

    def synthesize(
        self, rtlil: str, part: TargetDef, *, pack_registers: bool | str, progress: Progress
    ) -> Netlist:
        """Map a design in RTLIL to the cells of a part; `tg2hdl_synth.netlist.yosys_netlist` runs and counts.

        Parameters
        ----------
        rtlil : str
            The design.
        part : TargetDef
        pack_registers : bool or str
            Whether, or where, registers are moved into block RAMs.
        progress : Progress
            Called with a message before each step.

        Raises
        ------
        SynthesisError
            When a tool fails.
        InputError
            For a family without synthesis.
        """
        raise InputError(
            f"part {part.name} is of the family {part.family!r}, for which there is no flow",
            hint=f"families with a flow: {', '.join(_with_synthesis())}",
        )

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
        """Place and route a netlist with one seed, aiming at a frequency (MHz).

        Parameters
        ----------
        netlist : Netlist
            Of `synthesize`.
        part : TargetDef
        speed : int
            Speed grade of the part.
        seed : int
            Of the placer; equal seeds give equal results.
        frequency : float
            Clock to aim at (MHz).
        progress : Progress
            Called with one line of text for each step.

        Raises
        ------
        DesignTooLargeError
            When the part does not have enough cells.
        SynthesisError
            When the tool fails.
        ToolMissingError
            For a family without place and route.
        """
        raise ToolMissingError(
            f"the flow of the family {part.family!r} has no place and route",
            hint="give place=False, on the command line --seeds 0, for the cells only",
        )

    def notes(self, netlist: Netlist, part: TargetDef, rtlil: str) -> tuple[str, ...]:
        """Lines for the result.

        Parameters
        ----------
        netlist : Netlist
        part : TargetDef
        rtlil : str
            The design before synthesis.
        """
        return ()

    def simulation_models(self, module: dict[str, Any], folder: Path) -> tuple[str, str]:
        """Prepare a netlist's module (JSON of Yosys) for simulation.

        Parameters
        ----------
        module : mapping of str to Any
            JSON of Yosys.
        folder : path
            For further files.

        Returns
        -------
        str
            Verilog file of Yosys with models of the cells, or one that was written to `folder`.
        str
            Verilog of further models, to which cells of the module were bound.

        Raises
        ------
        InputError
            For a family without models.
        """
        raise InputError(
            "the cells of the netlist have no models for simulation",
            hint="simulate the design itself, or a netlist of another family",
        )

    # Boards

    def part_of(self, platform: Any) -> str | None:
        """Name of the part of a platform of Amaranth; None for one of another family, or without open tools."""
        return None

    def board_platform(self, platform: type, part: str) -> type:
        """Return a platform of Amaranth as one that `board_tools` build.

        Parameters
        ----------
        platform : type
            Class of Amaranth.
        part : str
            Name of the part.
        """
        return platform

    def plls(self, source: float, wanted: float) -> Iterable[PllSettings]:
        """All settings of the PLL for clocks up to the wanted one, from a source (MHz); without a PLL the source.

        Parameters
        ----------
        source : float
            Frequency of the reference (MHz).
        wanted : float
            Highest frequency (MHz).
        """
        return [PllSettings(source, ())] if source <= wanted else []

    def add_pll(self, m: Module, platform: Any, settings: PllSettings, clock: Signal, locked: Signal) -> None:
        """Drive a clock from the default clock of a platform, and `locked` once it is stable.

        Parameters
        ----------
        m : Module
            Top module of the board.
        platform
            Of Amaranth, an object.
        settings : PllSettings
            From `plls`.
        clock : Signal
            Driven.
        locked : Signal
            Driven: high once the clock is stable.
        """
        m.d.comb += [clock.eq(self.clock_input(m, platform)), locked.eq(1)]

    def add_clock(self, m: Module, platform: Any, frequency: float, clock: Signal, locked: Signal) -> None:
        """Drive another clock, of exactly this frequency, from the default clock of a platform.

        Parameters
        ----------
        m : Module
            Top module of the board.
        platform
            Of Amaranth, an object.
        frequency : float
            MHz.
        clock : Signal
            Driven.
        locked : Signal
            Driven: high once the clock is stable.

        Raises
        ------
        InputError
            When the family cannot; this one takes only the default clock itself.
        """
        source = platform.default_clk_frequency / 1e6
        if source != frequency:
            raise InputError(
                f"a clock of {frequency:g} MHz besides that of the design cannot be made from {source:g} MHz here",
                hint="choose another link, or a board with an ECP5",
            )
        m.d.comb += [clock.eq(self.clock_input(m, platform)), locked.eq(1)]

    @staticmethod
    def clock_input(m: Module, platform: Any) -> Value:
        """Return the default clock of a platform, behind its one input buffer.

        Parameters
        ----------
        m : Module
        platform : object
            Amaranth's platform of the board.
        """
        from amaranth.lib import io

        if not hasattr(m.submodules, "clock_buffer"):
            m.submodules.clock_buffer = io.Buffer("i", platform.request(platform.default_clk, dir="-"))
        return m.submodules.clock_buffer.i

    def build_options(self, part: TargetDef, frequency: float) -> dict[str, str]:
        """Overrides for the build script of Amaranth's platforms, in addition to the reports of nextpnr.

        Parameters
        ----------
        part : TargetDef
        frequency : float
            That placement aims at (MHz).
        """
        return {"synth_opts": "-no-rw-check"}

    def soft_products(self, rtlil: str, part: TargetDef) -> str:
        """Commands of Yosys that build products of LUTs, so that the rest fits the part's multipliers.

        Parameters
        ----------
        rtlil : str
            The design.
        part : TargetDef
        """
        modules = read_rtlil(rtlil)
        narrow = all(max(product.widths) <= 9 for product in products(modules))
        soft = [f"{p.module}/{p.name}" for p in soft_products(modules, self.multipliers(part, narrow=narrow))]
        return f"proc\nbooth {' '.join(soft)}\n" if soft else ""

    def multipliers(self, part: TargetDef, *, narrow: bool) -> int:
        """Products of at most 18 bits that a part's multipliers compute, or of at most 9 bits (`narrow`).

        Parameters
        ----------
        part : TargetDef
        narrow : bool
            Whether products have at most 9 bits.
        """
        return part.dsp

    def counts(self, placed: Mapping[str, Any]) -> dict[str, int]:
        """Count a cell of nextpnr's netlist, or a type of its report without parameters, by kind."""
        return {kind: 1 for kind, pattern in self._patterns.items() if pattern.fullmatch(placed["type"])}

    @cached_property
    def _patterns(self) -> dict[str, re.Pattern[str]]:
        return {kind: re.compile(self.cells[kind]) for kind in KINDS if kind in self.cells}


def tools_of(family: str) -> Family:
    """Tools of a family; those that have nothing for a family without tools.

    Raises
    ------
    PluginError
        When the tools that a plugin registers are none, or two plugins claim the family.
    """
    found = registry().flow(family)
    return Family() if found is None else registry().make(found, "flow", Family)


def _with_synthesis() -> list[str]:
    names = []
    for flow in registry().flows():
        try:
            tools = tools_of(flow.name)
        except Tg2hdlError:
            continue
        if type(tools).synthesize is not Family.synthesize:
            names.append(flow.name)
    return names
