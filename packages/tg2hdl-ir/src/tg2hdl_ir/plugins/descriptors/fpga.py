"""Descriptors of FPGA families, their parts, boards and tools."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tg2hdl_ir.plugins.descriptors.factory import Factory

__all__ = ["BoardDef", "FamilyDef", "FlowDef", "MemoryFigures", "TargetDef"]


@dataclass(frozen=True)
class TargetDef:
    """An FPGA part.

    Parameters
    ----------
    name : str
        Name of the part for ``--part``, e.g. ``ecp5-45k``.
    family : str
        Its series, e.g. ``ecp5``: the name of a `FamilyDef`, and of the units for it.
    description : str
        One line.
    lut, ff, dsp, bram : int
        LUTs, flip-flops, multipliers and block RAMs of the part.
    bram_bits : int
        Bits of one block RAM.
    options : tuple of (str, str)
        Names and values that the flow passes to its tools, e.g. the package.
    """

    name: str
    family: str
    description: str
    lut: int
    ff: int
    dsp: int
    bram: int
    bram_bits: int
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class FlowDef:
    """Tools of an FPGA family whose `FamilyDef` has none.

    Parameters
    ----------
    name : str
        The family, as in `TargetDef.family`.
    description : str
        One line.
    flow : Factory
        As `FamilyDef.tools`.
    """

    name: str
    description: str
    flow: Factory


@dataclass(frozen=True)
class MemoryFigures:
    """Memories of an FPGA family, as the planner sees them.

    Parameters
    ----------
    lut_bits : int
        Largest memory that may stay in LUT RAM (bits); larger ones are block RAM.
    lut_words : int
        Words of one row of LUT RAM, of whatever width.
    block_bits : int
        Bits of one block RAM.
    block_words : int
        Words of one block RAM of one bit; deeper memories select among blocks.
    block_modes : tuple of (int, int)
        Bits and words of the shapes of a block RAM, the widest first.
    whole_depth : bool
        Whether the flow gives each block all words of a memory and a few of its bits, without a multiplexer.
    byte_bits : int
        Bits of a word with a write enable of their own.
    dual_bits : int
        Widest word (bits) with which both ports of a block may read; 0 where only one port can.
    packed_bits : int
        Widest word (bits) with which a block RAM has an output register; 0 where every word has one.
    wide_bits : int
        Minimum word width at which the address fan-out to the blocks gets its own register (bits).
    lut_ports, block_ports, large_ports : int
        Maximum read ports of a memory in LUT RAM, in one block RAM, and in several; every port is a copy of the memory.
    """

    lut_bits: int = 2048
    lut_words: int = 16
    block_bits: int = 18432
    block_words: int = 16384
    block_modes: tuple[tuple[int, int], ...] = field(
        default=((36, 512), (18, 1024), (9, 2048), (4, 4096), (2, 8192), (1, 16384)), hash=False
    )
    whole_depth: bool = True
    byte_bits: int = 9
    dual_bits: int = 18
    packed_bits: int = 18
    wide_bits: int = 1024
    lut_ports: int = 16
    block_ports: int = 4
    large_ports: int = 2

    def packed(self) -> MemoryFigures:
        """The figures where block RAMs use their output registers."""
        modes = tuple(m for m in self.block_modes if not self.packed_bits or m[0] <= self.packed_bits)
        return replace(self, block_modes=modes)

    def read_ports(self, bits: int) -> int:
        """Read ports that a memory of this size may have."""
        if bits <= self.lut_bits:
            return self.lut_ports
        return self.block_ports if bits <= self.block_bits else self.large_ports


@dataclass(frozen=True)
class BoardDef:
    """A board that a design can be built for, with a link to its host.

    Parameters
    ----------
    name : str
        For ``board=`` and ``--board``.
    description : str
        One line.
    part : str
        FPGA part, one of `tg2hdl_targets`.
    platform : Factory
        ``() -> amaranth.build.Platform`` with a default clock and the pins of a link, such as the resource ``uart`` 0.
    loader : str
        Name of the board for openFPGALoader; empty where it has none.
    first_clock : float
        Clock that the first place-and-route run aims at (MHz).
    baud : int
        Fastest rate of the bridge at the serial line (bits per second).
    memories : tuple of str
        Where the loader writes a bitstream: ``sram``, which is lost without power, and ``flash``.
    note : str
        What to do before the bitstream is loaded, e.g. to start a boot loader; empty where there is nothing.
    """

    name: str
    description: str
    part: str
    platform: Factory
    loader: str
    first_clock: float = 100.0
    baud: int = 2_000_000
    memories: tuple[str, ...] = ("sram", "flash")
    note: str = ""


@dataclass(frozen=True)
class FamilyDef:
    """An FPGA family: figures for the planner, parts, boards and tools.

    Parameters
    ----------
    name : str
        As in `TargetDef.family`.
    description : str
        One line.
    stage_levels : int
        Logic levels in a clock cycle.
    read_latency, product_latency : int
        Cycles of a memory read and of a hardware multiplier, with the registers inside the family's blocks.
    memory : MemoryFigures
    parts : tuple of TargetDef
        Each names this family.
    boards : tuple of BoardDef
    pack_registers : bool
        Option of `tg2hdl_synth.synthesize` for designs that are planned for the family.
    tools : Factory, optional
        ``() -> tg2hdl_synth.families.Family``: synthesis, place and route, bitstreams.
    estimator : Factory, optional
        ``(design: tg2hdl_top.Design) -> (LUTs, clock in MHz) | None`` before synthesis, for `tg2hdl explain`.
    """

    name: str
    description: str
    stage_levels: int
    read_latency: int
    product_latency: int
    memory: MemoryFigures = field(default_factory=MemoryFigures)
    parts: tuple[TargetDef, ...] = field(default=(), hash=False)  # planning looks families up by hash
    boards: tuple[BoardDef, ...] = field(default=(), hash=False)
    pack_registers: bool = False
    tools: Factory | None = field(default=None, hash=False)
    estimator: Factory | None = field(default=None, hash=False)

    @property
    def flows(self) -> tuple[FlowDef, ...]:
        """The tools as their own descriptor; empty without tools."""
        return () if self.tools is None else (FlowDef(self.name, self.description, self.tools),)
